"""The unit of a record whose fields have annotations: `{ byte_size = 4, signed = true }`.

An integer has its size in bytes (1, 2, 4 or 8) and may be signed, or is one of Hadoop's of variable size
(`hadoop_vint = true`); a string has a size that may depend on the integers before it (`key_len`, `total - 4`).
`byte_order = little` annotates a field, or the record for all of them. `encoding` is the text encoding of a string,
and changes nothing on the wire. Others are ignored with a warning.
"""

from __future__ import annotations

from typing import Any

from sluice.service.grammar.tree import Attribute, Grammar, Value, WireField, WireType
from sluice.service.lang import tree
from sluice.service.lang.errors import Place, ServiceError, Warned, suggest

_KNOWN = ("byte_size", "size", "signed", "byte_order", "encoding", "hadoop_vint")
_TRUE = tree.AnnotationName("true")


def annotated_unit(declaration: tree.TypeDeclaration, warnings: list[Warned]) -> Grammar | None:
    """The unit that annotations describe; None for a record without any. Raises ServiceError."""
    fields = declaration.type.fields
    if declaration.type.kind != "record" or not any(each.annotation or each.type.annotation for each in fields):
        return None
    unit = Grammar(declaration.place, declaration.name)
    order = _order(declaration.type.annotation, declaration.place)
    if order:
        unit.properties["byteorder"] = order
    for each in fields:
        annotation = {**each.type.annotation, **each.annotation}
        for name in annotation:
            if name not in _KNOWN:
                what = f"the annotation '{name}' has no meaning on the wire: {suggest(name, _KNOWN)}"
                warnings.append(Warned(each.place, what))
        unit.items.append(_field(each, annotation))
    return unit


def _field(field: tree.FieldDeclaration, annotation: dict[str, Any]) -> WireField:
    place, name = field.place, "" if field.name == "_" else field.name
    if field.type.kind == "integer" and annotation.get("hadoop_vint") == _TRUE:
        return WireField(place, name, WireType(place, "vint"))
    size = annotation.get("byte_size", annotation.get("size"))
    if size is None:
        raise ServiceError(place, f"nothing says how long '{field.name}' is on the wire", "add { byte_size = ... }.")
    if field.type.kind == "integer":
        if size not in (1, 2, 4, 8):
            raise ServiceError(place, f"the integer '{field.name}' cannot have this size", "write 1, 2, 4 or 8.")
        signed = annotation.get("signed") == _TRUE
        found = WireField(place, name, WireType(place, "int" if signed else "uint", 8 * size))
        order = _order(annotation, place)
        if order:
            found.attributes = [Attribute(place, "byteorder", Value(place, "text", order))]
        return found
    if field.type.kind != "string":
        raise ServiceError(place, f"'{field.name}' has no form on the wire", "use an integer or a string.")
    return WireField(place, name, WireType(place, "string"), [Attribute(place, "length", _value(size, place))])


def _value(size: Any, place: Place) -> Value:
    match size:
        case int():
            return Value(place, "number", number=size)
        case tree.AnnotationName():
            return Value(place, "field", size.name)
        case str() if size.isidentifier():
            return Value(place, "field", size)
        case tree.AnnotationSum():
            return Value(place, size.operator, items=(_value(size.left, place), _value(size.right, place)))
        case _:
            raise ServiceError(place, "a size is a number, or depends on integer fields", "write byte_size = len - 4.")


def _order(annotation: dict[str, Any], place: Place) -> str:
    order = annotation.get("byte_order")
    if order is None:
        return ""
    if order not in (tree.AnnotationName("big"), tree.AnnotationName("little")):
        raise ServiceError(place, "this is no byte order", "write byte_order = big, or little.")
    return str(order.name)
