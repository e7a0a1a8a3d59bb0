"""The time now in a named time zone."""

from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

_UTC_NAMES = {"", "UTC", "GMT", "Z", "ETC/UTC"}


def now_in(name: str, *, now: datetime | None = None) -> str:
    """Date, time, weekday and offset in a zone, such as `2026-12-01 14:05:09 UTC+01:00 (Tuesday, Europe/Berlin)`.

    Raises ValueError that names zones which are close to an unknown one.
    """
    zone = _zone(name)
    local = (now or datetime.now(UTC)).astimezone(zone)
    offset = local.strftime("%z")
    return f"{local:%Y-%m-%d %H:%M:%S} UTC{offset[:3]}:{offset[3:5]} ({local:%A}, {name.strip() or 'UTC'})"


def _zone(name: str) -> tzinfo:
    wanted = name.strip()
    if wanted.upper() in _UTC_NAMES:
        return UTC
    try:
        return ZoneInfo(wanted)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = sorted(available_timezones())
        by_city = [each for each in known if each.rpartition("/")[2].lower() == wanted.lower().replace(" ", "_")]
        close = by_city or get_close_matches(wanted, known, n=3)
        hint = f" Close to it: {', '.join(close[:3])}." if close else " Use an IANA name such as Europe/Berlin."
        raise ValueError(f"There is no time zone {wanted!r}.{hint}") from error
