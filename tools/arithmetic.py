"""Arithmetic from text, bounded in size: parsed, never evaluated as code."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

Number: TypeAlias = int | float

MAX_LENGTH = 500
MAX_NODES = 200
MAX_BITS = 4_096
"""Whole numbers past this many bits (about 1,200 digits) are refused, before they are worked out."""

MAX_PLACES = 1_000

_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "^": "**", "·": "*", "\u00a0": " "})
_BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs, "round": round, "min": min, "max": max, "sqrt": math.sqrt, "exp": math.exp, "log": math.log,
    "log2": math.log2, "log10": math.log10, "sin": math.sin, "cos": math.cos, "tan": math.tan, "floor": math.floor,
    "ceil": math.ceil,
}  # fmt: skip
_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}


def evaluate(expression: str) -> str:
    """The value of an expression as text, at most 12 significant digits where it is not whole.

    Raises ValueError with a message for whoever wrote the expression.
    """
    text = expression.strip().rstrip("=?").strip().translate(_SIGNS)
    if not text:
        raise ValueError("The expression is empty.")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"The expression has {len(text)} characters; at most {MAX_LENGTH} are worked out.")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"{expression!r} is not an arithmetic expression.") from error
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise ValueError(f"The expression has more than {MAX_NODES} parts.")
    try:
        return _shown(_value(tree.body))
    except ZeroDivisionError as error:
        raise ValueError("Division by zero.") from error
    except OverflowError as error:
        raise ValueError("The result is too large.") from error


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=bool()):
            raise ValueError("Only numbers can be worked out.")
        case ast.Constant(value=int() | float() as number):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _value(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _binary(op, _value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _called(name, [_value(each) for each in args])
        case _:
            known = ", ".join(_FUNCTIONS)
            raise ValueError(f"{ast.unparse(node)!r} cannot be worked out: only numbers, + - * / // % ** and {known}.")


def _binary(op: ast.operator, left: Number, right: Number) -> Number:
    if isinstance(op, ast.Pow):
        _check_power(left, right)
    result = _BINARY[type(op)](left, right)
    if isinstance(result, complex):
        raise ValueError("The result is not a real number.")
    return _bounded(result)


def _called(name: str, args: list[Number]) -> Number:
    if name == "round" and len(args) == 2 and abs(args[1]) > MAX_PLACES:
        raise OverflowError
    try:
        return _bounded(_FUNCTIONS[name](*args))
    except TypeError as error:
        raise ValueError(f"{name} does not take {len(args)} such number(s).") from error
    except ValueError as error:
        raise ValueError(f"{name}({', '.join(map(_shown, args))}) has no value.") from error


def _check_power(base: Number, exponent: Number) -> None:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        if exponent > 0 and base.bit_length() * exponent > MAX_BITS:
            raise OverflowError
        if exponent < -MAX_BITS:
            raise OverflowError


def _bounded(number: Number) -> Number:
    if isinstance(number, int):
        if number.bit_length() > MAX_BITS:
            raise OverflowError
    elif not math.isfinite(number):
        raise OverflowError
    return number


def _shown(number: Number) -> str:
    if isinstance(number, int):
        return str(number)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:.12g}"
