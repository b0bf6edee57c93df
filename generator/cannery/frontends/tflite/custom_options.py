"""Options of custom operators: a FlexBuffer that maps names to numbers."""

from __future__ import annotations

#: More options than any operator has.
_MOST = 256


def custom_options(data: bytes) -> tuple[dict[str, object], str]:
    """The options that are numbers, by name, and the reason why there are none; the data is not
    trusted.
    """
    from flatbuffers import flexbuffers

    try:
        root = flexbuffers.GetRoot(data)
        if not root.IsMap:
            return {}, "its options are not a map of a FlexBuffer"
        entries = root.AsMap
        if len(entries) > _MOST:
            return {}, f"it has {len(entries)} options"
        keys, values = entries.Keys, entries.Values
        found: dict[str, object] = {}
        for k in range(len(entries)):
            value = values[k]
            if value.IsBool or value.IsInt or value.IsFloat:
                found[str(keys[k].AsKey)] = value.Value
        return found, ""
    except Exception as error:  # whatever a reader of damaged data may raise
        return {}, f"its options cannot be read ({type(error).__name__})"
