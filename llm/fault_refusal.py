"""Recognises "this parameter is not taken" and says which one: the name nearest to the words of refusal."""

import re

TOOLS = "tools"

_NAMES: dict[str, str] = {
    "parallel_tool_calls": r"parallel_tool_calls?|parallel (?:tool|function)[ -](?:calls?|calling|use)",
    "tool_choice": r"tool_choice|tool[ -]choice|toolchoice|function_call(?!ing|s)",
    TOOLS: r"tools|functions|tool_use|tool_calls|(?:tool|function)[ -](?:use|usage|calling|calls?)"
    r"|tool (?:role|messages?)|role '?tool'?",
    "stream_options": r"stream_options|include_usage",
    "max_completion_tokens": r"max_completion_tokens",
    "max_output_tokens": r"max_output_tokens|maxoutputtokens",
    "max_tokens": r"max_tokens",
    "temperature": r"temperature",
    "top_p": r"top_p",
    "top_k": r"top_k",
    "presence_penalty": r"presence_penalty",
    "frequency_penalty": r"frequency_penalty",
    "logprobs": r"(?:top_)?logprobs",
    "response_format": r"response_format|json[ _-]mode|json[_ ]schema|json_object|structured[ _]outputs?"
    r"|response mime type|response_mime_type|response schema|guided[ _]json",
    "reasoning_content": r"reasoning_content|reasoning_details",
    "reasoning_effort": r"reasoning_effort|reasoning\.effort|reasoning effort",
    "images": r"images?(?:[ _-](?:inputs?|urls?|content|parts?|data))?|image_url|vision"
    r"|multi-?modal(?: (?:inputs?|content))?|visual (?:inputs?|content)",
    "system_messages": r"(?:system|developer)[ _](?:role|messages?|prompts?|instructions?)"
    r"|role '?(?:system|developer)'?|system_instruction|developer instruction",
    "stream": r"streaming|stream",
    "seed": r"seed",
    "thinking": r"thinking(?! mode)",
}
_BEFORE, _AFTER = r"(?<![\w/.-])", r"(?![\w/\[-])(?!\.\w)"
_NAME = re.compile("|".join(f"(?P<{name}>{_BEFORE}(?:{words}){_AFTER})" for name, words in _NAMES.items()))

# The object follows.
_REFUSES = (
    r"(?:does|do|did|can|will)(?:n't| ?not)(?: \w+ly)?(?: yet)?(?: have)? "
    r"(?:support|accept|allow|take|handle|process|understand)"
    r"|(?:does|do)(?:n't| ?not)(?: yet)? (?:have|offer|provide|come with)"
    r"|unsupported (?:request )?(?:param|arg|field|option|feature|key|propert|content type)\w*"
    r"|unknown (?:request )?(?:param|field|arg|name|key|propert)\w*"
    r"|unrecogni[sz]ed (?:request )?(?:arg|param|field|key|propert|name)\w*"
    r"|unexpected (?:keyword |request )?(?:arg|field|param|propert|key)\w*"
    r"|no endpoints found (?:that|which) supports?|(?:lacks?|without|no|missing) support for"
    r"|(?:cannot|can't|unable to|not able to|incapable of) (?:us|process|handl|accept|support|perform|do)\w*"
    r"|(?:not|never) (?:capable of|trained for|designed for)|extra (?:inputs?|fields?|keys?):"
)
# The subject stands before.
_REFUSED = (
    r"(?:not|n't)(?: yet| currently| \w+ly)? (?:supported|enabled|allowed|permitted|available|accepted|implemented"
    r"|recogni[sz]ed|compatible"
    r"|a (?:valid|supported|known|permitted|recogni[sz]ed) (?:param|arg|field|option|feature)\w*)"
    r"|incompatible"
    r"|(?:is|are|was|were|be) (?:\w+ly )?(?:disabled|deprecated|forbidden|disallowed|unavailable|unsupported|rejected)"
    r"|must not be (?:set|used|specified|provided|present|passed|sent)"
    r"|(?:cannot|can't|may not)(?: both| all)? be (?:used|set|specified|combined|sent|passed|provided|enabled)"
    r"|(?:is|are) only (?:supported|available|allowed)|only (?:the )?default"
    r"|only ['\"`]?[\w.]+['\"`]? (?:is|are) (?:allowed|supported|accepted|available)"
    r"|(?:may|can|must) only be|cannot find field|unsupported(?! \w+\b:)"
)
_SAYS_NO = re.compile(rf"(?P<before>\b(?:{_REFUSES}))|(?P<after>(?:\b|(?<=\w))(?:{_REFUSED}))")
_NEAR = 110

_INSTEAD = re.compile(
    r"(?:please |you (?:can|may|should|must) )?\b(?:use|try|set|pass|send|switch to|replace (?:it )?with)\b"
    r"[^.;]{1,60}?\binstead\b"
    r"|\b(?:please )?use ['\"`]?\w+['\"`]? (?:for|with) (?:this|these|newer)[^.;]*"
    r"|\binstead of\b[^.;]{1,40}|\btry disabling\b[^.;]*"
)
_BREAK = re.compile(r"[.!?;]\s|\n")

_Special = tuple[re.Pattern[str], str | None]
_SPECIAL: tuple[_Special, ...] = tuple(
    (re.compile(pattern, re.DOTALL), refused)
    for pattern, refused in (
        (r"enable-auto-tool-choice|tool-call-parser", TOOLS),
        (r"\btool[_ ]choice\b.{0,80}\bthinking\b|\bthinking\b.{0,80}\btool[_ ]choice\b", "tool_choice"),
        (r"\b(?:following|hosted|built-?in|server|server-side) tools?\b", None),
        (
            r"reasoning_content\b.{0,70}\b(?:must be (?:passed|provided|included|present|sent)"
            r"|(?:is|are|was) (?:missing|required))"
            r"|(?:missing|requires?|without|expected)\b.{0,25}\breasoning_content\b|must start with a thinking block",
            "reasoning_content_required",
        ),
        (
            r"(?:response_format|json[ _-]mode|json[_ ]schema|structured[ _]outputs?|response[ _]mime[ _]?type).{0,80}"
            r"\b(?:tools?|function)\b.{0,60}"
            r"(?:combin|together|same|cannot|can't|not supported|unsupported|not allowed)",
            "response_format",
        ),
        (
            r"\b(?:tools?|function)\b.{0,80}(?:response_format|json[ _-]mode|json[_ ]schema|structured[ _]outputs?"
            r"|response[ _]mime[ _]?type).{0,60}(?:combin|together|same|unsupported|not supported|cannot|not allowed)"
            r"|(?:combin|together).{0,60}(?:json[ _-]mode|response_format|structured[ _]outputs?)",
            "response_format",
        ),
        (
            r"\brole['\"`]?.{0,25}?(?:not support|unsupported|not allowed|invalid).{0,10}?['\"`]?"
            r"\b(?:system|developer)\b|only (?:the )?user and assistant roles|system role (?:is )?not",
            "system_messages",
        ),
        (
            r"\broles? must alternate|\balternat\w+\b.{0,30}\broles?\b|\bconsecutive (?:user|assistant)\b",
            "alternate_roles",
        ),
        (
            r"invalid type: sequence, expected a string"
            r"|\bcontent\b.{0,40}?\b(?:must|should|expected|needs|has)\b(?: to)?(?: be)?(?: of type)?"
            r"(?: an?)?(?: valid| plain)? str(?:ing)?\b",
            "string_tool_content",
        ),
        (
            r"unknown variant .?image_url|input tag .?image|not a (?:multimodal|multi-modal|vision) model"
            r"|\bat most 0 images?|\bmmproj\b"
            r"|\bonly (?:supports? |accepts? |takes? )?text(?:[ -]only)?\b(?: content| inputs?| messages?)?"
            r"(?: \w+){0,2}(?: supported| accepted| allowed|[.!]|$)|\bimage_url\b.{0,20}only (?:supported|available)",
            "images",
        ),
        (
            r"\binvalid (?:value )?(?:for |of )?['\"`]?tool[_ ]choice"
            r"|\btool[_ ]choice['\"`]?:? (?:must|should|only|value|expected)",
            "tool_choice",
        ),
    )
)
_PATH = re.compile(r"[A-Za-z_]\w*")
_LISTED = re.compile(
    rf"(?:{_REFUSES})(?: supplied| provided| found| passed| in request)?\W{{1,4}}(?P<first>[a-z_][\w.\[\]]*)['\"`)]"
    rf"|(?:{_REFUSES})(?: supplied| provided)?: (?P<bare>[a-z_][\w.\[\]]*)"
    r"|(?:parameter|property|field|argument|key|option) ['\"`](?P<quoted>[a-z_][\w.\[\]]*)['\"`]\W{1,3}(?:\w+ ){0,3}?"
    rf"(?:{_REFUSED})"
    r"|(?P<path>[a-z_][\w.\[\]]*): extra (?:inputs?|fields?) (?:are )?not permitted"
)


def refused_in(text: str) -> str | None:
    """The parameter that the words refuse, `tools` for tools as such, None where they refuse none.

    `text` is lower case, with its quoted identifiers. Profile fields stand for what is refused without a parameter:
    `system_messages`, `alternate_roles`, `string_tool_content`; `reasoning_content_required` asks for it back.
    """
    for pattern, refused in _SPECIAL:
        if pattern.search(text):
            return refused
    text = _INSTEAD.sub(" ", text)
    for sentence in _BREAK.split(text):
        for no in _SAYS_NO.finditer(sentence):
            if found := _nearest(sentence, no):
                return found
    listed = _LISTED.search(text)
    return parameter(next(str(each) for each in listed.groups() if each)) if listed else None


def parameter(path: str) -> str | None:
    """The refused parameter of a path such as `messages.2.reasoning_content` or `tools[0].function.strict`.

    None for a path that names none: content of the conversation, or no identifier at all.
    """
    steps: list[str] = _PATH.findall(path[:200])
    steps = steps[1:] if steps[:1] == ["body"] else steps
    # A long step, or one full of digits, is no parameter of any provider; it may be a secret that the error quotes.
    if not steps or any(len(step) > 40 or len(re.findall(r"\d", step)) > 3 for step in steps):
        return None
    known = next((step for step in reversed(steps) if step in _NAMES or step in ("image_url", "include_usage")), None)
    if known in (None, TOOLS) and len(steps) > 1:
        return None if steps[0] in ("messages", "input") else steps[-1]
    if known is None:
        return None if steps[0] in ("messages", "input", "model", "prompt") else steps[0]
    return {"image_url": "images", "include_usage": "stream_options"}.get(known, known)


def _nearest(sentence: str, no: re.Match[str]) -> str | None:
    """The name next to the refusal, on the side where its grammar puts it, else on the other side."""
    names = [(match, str(match.lastgroup)) for match in _NAME.finditer(sentence)]
    left = [each for each in names if each[0].end() <= no.start() and no.start() - each[0].end() <= _NEAR]
    right = [each for each in names if each[0].start() >= no.end() and each[0].start() - no.end() <= _NEAR]
    if no.group("before") and not (left and _is_parameter(sentence, left[-1][0], no)):
        side = right or left[::-1]
    else:
        side = left[::-1] or right
    if not side:
        return None
    listed = [side[0]]
    for each in side[1:]:
        first, second = sorted((listed[-1][0], each[0]), key=lambda match: match.start())
        if not re.fullmatch(r"['\"`]?\s*(?:,|and|or|/|&|\s)*\s*['\"`]?", sentence[first.end() : second.start()]):
            break
        listed.append(each)
    found = [name for _, name in sorted(listed, key=lambda each: each[0].start())]
    if TOOLS not in found:
        return found[0]
    # Tools are dropped only where nothing smaller can be meant.
    return "tool_choice" if "tool_choice" in {name for _, name in names} - set(found) else TOOLS


def _is_parameter(sentence: str, name: re.Match[str], no: re.Match[str]) -> bool:
    """True for a parameter that is the subject itself: `'temperature' does not support 0.2`."""
    between = sentence[name.end() : no.start()]
    spelled = "_" in name.group() or between[:1] in ("'", '"', "`")
    return spelled and re.fullmatch(r"['\"`]?(?: \(?(?:parameter|param|field|option|value)\)?)? ", between) is not None
