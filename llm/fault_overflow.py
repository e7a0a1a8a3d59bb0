"""Recognises "the request is larger than the context" by its sense: what is too large, near a word for too large."""

import re

_EDGE, _END = r"(?<![\w-])", r"(?![\w-])"

_ROOM = (
    r"(?:context[ _-](?:length|window|size|limit|budget|capacity|space|tokens?)"
    r"|max(?:imum)?[ _-](?:context|model|sequence|seq|prompt|input)(?:[ _-](?:length|len|size|tokens?))?"
    r"|(?:input|prompt|requested|total|combined|sequence|conversation|chat|messages?)[ _-](?:token[ _-])?"
    r"(?:tokens?|length|len|counts?|size)"
    r"|token[ _-](?:counts?|limit|budget)|(?:number|amount|count) of (?:\w+ )?tokens|tokens? (?:allowed|permitted)"
    r"|(?:prompt|input|conversation|history|messages?)"
    r"|n_ctx|num_ctx|n_prompt_tokens|max_model_len|max_seq_len|max_position_embeddings)"
)
"""Nouns of the room in the context and of what has to fit into it."""

_MEASURED = (
    r"(?:context|n_ctx|num_ctx|max_model_len|max_seq_len|max_position_embeddings|tokens?|token_count|prompt_tokens"
    r"|input_tokens|n_prompt_tokens|(?:input|prompt|sequence) (?:length|size)|max(?:imum)? (?:\w+ )?length"
    r"|(?:the|this) model(?:'s)?|max(?:imum)? size)"
)
"""What shows that length was measured against a model, and not a field against a format."""

_OVER = (
    r"(?:exceed(?:s|ed|ing)?|overflow(?:s|ed|n|ing)?|surpass\w*|overr[ua]n\w*|exhaust\w*|outgr\w+"
    r"|too (?:long|large|big|many)"
    r"|(?:longer|larger|greater|bigger|more|higher) than|(?:over|above|beyond|past|outside) (?:the |its )?"
    r"(?:\w+ )?(?:limit|max\w*|model|allowed|context)"
    r"|(?:not|n't|cannot) (?:be )?(?:fit|fitted|accommodated?|hold)|not fit\w*|no longer fits?"
    r"|(?:r[ua]n|running|out) out of|is (?:now )?full|(?:reach(?:ed|es)|hit) (?:the |its )?(?:max\w*|limit)"
    r"|limit (?:is |was |has been )?reached"
    r"|not enough (?:room|space|context)|insufficient (?:context|room|space))"
)

_SUBJECT = r"(?:prompts?|inputs?|conversation|history|transcript|dialogue|chat(?: history)?|messages|context|sequence)"
_SENSES = re.compile(
    rf"{_EDGE}{_ROOM}{_END}.{{0,90}}?{_EDGE}{_OVER}{_END}|{_EDGE}{_OVER}{_END}.{{0,90}}?{_EDGE}{_ROOM}{_END}",
    re.DOTALL,
)
_CERTAIN = re.compile(
    "|".join(
        (
            # "prompt is too long"
            rf"{_EDGE}{_SUBJECT}(?: \w+){{0,3}}? too (?:long|large|big)\b",
            rf"\btoo (?:long|large|big) (?:a |an )?{_SUBJECT}\b",
            # "reduce the length of the messages"
            r"\b(?:reduc|shorten|decreas|trim|truncat|condens|shrink|compact)\w*(?: down)?(?: the| your)?"
            r"(?: (?:overall|total|combined))?(?: (?:length|size|number|amount) of)?(?: (?:the|your|input|total|some))*"
            r" (?:messages?|prompts?|inputs?|conversation|history|context|chat|transcript)\b",
            # "context length is 8192 tokens. However, you requested 8545", and the other way round
            r"\b(?:context|prompt|input|sequence)[ _](?:length|window|size|limit)\b.{0,60}?\d{3,}.{0,100}?"
            r"\b(?:request|result|contain|prompt|"
            r"messages|input|got|sent|received|need|has|have)\w*\b.{0,60}?\d{3,}",
            r"\d{3,} (?:\w+ )?tokens?\b.{0,80}?\b(?:but|only|while|whereas|against|of at most)\b.{0,60}?"
            r"(?:\bcontext[ _](?:length|window|size|limit)\b|\btokens?\b).{0,60}?\d{3,}",
            r"\d{3,} (?:\w+ )?tokens?\b.{0,80}?\b"
            r"(?:at most|only|up to|no more than|limited to|(?:max\w*|limit)(?: is| of)?) \d{3,}",
            r"\b(?:at most|up to|no more than|maximum of|limited to) \d{3,} (?:\w+ )?tokens?\b.{0,100}?"
            r"\b(?:prompt|input|messages|conversation|request|sent|received|got)\b.{0,60}?\d{3,}",
            # "range of input length should be [1, 202745]"
            r"\b(?:input|prompt|context|message|conversation)s?(?: tokens?)?(?: (?:length|size|count))+(?: \(?\d+\)?)? "
            r"(?:should|must|has to|needs to|can ?not|can't)\b.{0,25}?(?:\[|less|most|below|under|between|within|"
            r"smaller|shorter|no more|fit|exceed|more than|longer|<)",
            r"\b(?:must|should|needs? to|has to) fit (?:in|into|within|inside)\b.{0,40}?\bcontext\b",
            r"\binputs?\W{1,3}tokens?\s*\+.{0,40}?(?:must|exceed|<=)",
            r"\b(?:length|size|number|count) of (?:the )?(?:prompt|input|context|message)\w*(?: \(?\d+\)?)? "
            r"(?:should|must) (?:be )?(?:less|at most|below|under|smaller|<)",
            r"\b(?:inputs?|prompts?|messages)['\"`]? must (?:have|be|contain|use) "
            r"(?:less|fewer|at most|no more|under|<).{0,25}?\btokens\b",
            r"\b(?:input|prompt|context) (?:token )?(?:count|length|tokens?)\b.{0,40}?\d{3,}.{0,60}?"
            r"\b(?:supports?|allows?|accepts?|limit|max\w*)\b.{0,20}?\d{3,}",
            r"\btoo many (?:input |prompt )?tokens\b|\bcontext overflow",
            r"\b(?:more|longer|larger|bigger) than (?:the|this) model (?:can|could|may|supports?|allows?|is able)\b",
            r"\b(?:provide|use|send|try)(?: using)? (?:a )?(?:shorter|smaller) (?:input|prompt|conversation|message)",
            # "213462 tokens > 200000 maximum"
            r"\b(?:prompt|input|context|messages)\b.{0,60}?\d{3,}(?: \w+)?\s*>\s*\d{3,}",
            # a whole request measured in bytes
            r"\brequest(?: \w+){0,2} (?:exceeds|exceeded|is (?:over|above|larger than)) (?:the )?"
            r"(?:max\w*|allowed|limit)(?: \w+){0,2} size\b",
            r"\brequest(?: \w+){0,2} too (?:large|long|big)\b.{0,40}?\b(?:model|context|tokens?)\b",
            # Chinese
            r"(?:上下文|输入|提示词?|对话|消息|prompt|tokens?).{0,20}?(?:超过|超出|超长|过长|太长|上限)",
        )
    ),
    re.DOTALL,
)
_PATH_TOO_LONG = re.compile(
    r"['\"`](?:messages(?:\[\d+\])?(?:\.content(?:\[\d+\](?:\.text)?)?)?|input(?:\[\d+\](?:\.content(?:\[\d+\]\.text)?)?)?"
    r"|prompt|contents)['\"`]:? (?:string|array) too long"
)

_OUTPUT = re.compile(
    r"\bmax[ _](?:completion[ _]|output[ _]|new[ _])?tokens?\b|\bmaxoutputtokens\b"
    r"|\b(?:completion|output|generated|response|thinking|reasoning) tokens?\b"
    r"|\boutput (?:limit|length)\b|\bbudget_tokens\b"
)
_INPUT = re.compile(
    r"\b(?:input length|(?:input|prompt) tokens?|your (?:request|prompt|messages|input)|the (?:messages|prompt)|"
    r"context (?:limit|window|length|size)|prompt|messages|conversation|n_ctx|requested \d+ tokens)\b"
)
_OUTPUT_SUBJECT = re.compile(
    r"(?:^|[.:;,({'\"`]\s*|invalid |value of |parameter |field |the )['\"`]?"
    r"max_(?:completion_|output_|new_)?tokens['\"`]?(?: \(\S+\)|: \d+|=\d+| value| of \d+)?\s*"
    r"(?:must|should|cannot|can't|has to|needs|may not|is (?:too|larger|greater|more|above|over)|exceeds?|>)"
)
_MEASURED_INPUT = re.compile(
    r"\byour (?:request|prompt|messages|input)\b|\b(?:inputs?|prompt)['\"`]? tokens\b|\binput length and\b"
)
_MEDIA = re.compile(r"\b(?:audio|video|images?|photos?|files?|pdfs?|documents?|attachments?|uploads?|media|urls?)\b")
_MODEL_ROOM = re.compile(r"\b(?:context|tokens?)\b")
_OTHER_FIELD = re.compile(
    r"\b(?:tools?|functions?|schemas?|enum|description|parameters?|metadata|stop sequences?|headers?|cookies?|batch|"
    r"user ?names?|passwords?|tool_call_id|ids?|names?)\b.{0,30}?"
    r"(?:too (?:long|large|big|many)|exceed\w*|longer than|more than)"
)


def says_overflow(text: str, raw: str) -> bool:
    """True where the words say that the request does not fit into the model's context.

    `text` is lower case without addresses and quoted identifiers; `raw` still has the identifiers. Not meant are
    limits of the output, of media, and of other fields. Rates and quotas must have been ruled out before.
    """
    if _PATH_TOO_LONG.search(raw):
        return True
    if _OUTPUT_SUBJECT.search(raw) and not _MEASURED_INPUT.search(text):
        return False
    if _OUTPUT.search(text) and not _INPUT.search(text):
        return False
    if _MEDIA.search(text) and not _MODEL_ROOM.search(text):
        return False
    if _CERTAIN.search(text):
        return True
    if _OTHER_FIELD.search(text) and "context" not in text:
        return False
    return bool(_SENSES.search(text) and re.search(_MEASURED, text))


_WORDS = r"(?: (?!by\b)[a-z]+){0,4}"
_LIMITS = re.compile(
    r"\bn_ctx\b\W{1,4}(\d{3,8})\b"
    rf"|\b(?:context[ _](?:length|window|size|limit)|max(?:imum)?|limit|at most|up to|no more than){_WORDS}"
    r"[:= ]*\(?\b(\d{3,8})\b(?!\s*\+)"
    r"|>\s*(\d{3,8})\b"
    r"|\[\s*\d+\s*,\s*(\d{3,8})\s*\]"
    r"|\b(\d{3,8}) (?:tokens? )?(?:max(?:imum)?\b|context (?:length|window|size|limit))"
)


def stated_limit(text: str) -> int | None:
    """The context in tokens that an overflow's words name, the smallest where they name several; None for none."""
    found = [int(next(each for each in match.groups() if each)) for match in _LIMITS.finditer(text.lower())]
    return min(found, default=None)
