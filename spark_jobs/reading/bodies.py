"""Bodies of messages as Spark's structs: one nullable field for each message type of a contract."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql import types as T  # noqa: N812 - likewise
from pyspark.sql.avro.functions import from_avro

from conversations.protocol.contract import Contract, MessageType

_SCALARS: Mapping[str, T.DataType] = {
    "string": T.StringType(),
    "integer": T.LongType(),
    "number": T.DoubleType(),
    "boolean": T.BooleanType(),
}
_FORMATS: Mapping[str, T.DataType] = {"date-time": T.TimestampType(), "date": T.DateType(), "binary": T.StringType()}
_CORRUPT = "_corrupt_record_"
"""Name of the field that Spark fills for broken JSON. No body has this field: Pydantic has no fields with a leading underscore."""
_DEEPEST = 20
"""Number of nested levels that become structs. Deeper levels stay JSON text, so the type of a model that refers to itself is finite."""
FIELD = re.compile(r"[^0-9A-Za-z_]")


def field_of(message_type: str) -> str:
    """Return the name of a message type's field in ``body``. A character that a column's name cannot have becomes an underscore."""
    return FIELD.sub("_", message_type)


def body_of(contract: Contract, message_type: Column, body: Column) -> Column:
    """Return the body as a struct with a field for each message type. Only the field of the message's own type is filled.

    A JSON body gets the type that ``spark_type`` returns. An Avro body gets Spark's type for its schema. Bytes stay bytes. The
    field of a message type without a body is true. The field is null if the body does not fit its type.
    """
    return F.struct(
        *(
            F.when(message_type == name, _parsed(declared, body)).alias(field_of(name))
            for name, declared in contract.types.items()
        )
    )


def _parsed(declared: MessageType, body: Column) -> Column:
    if declared.body is None:
        return F.when(F.length(body) == 0, F.lit(True))
    if declared.body == "bytes" or declared.body is bytes:
        return body
    if isinstance(declared.body, Mapping):
        return _from_avro(body, declared.body)
    kind = spark_type(TypeAdapter(declared.body).json_schema(mode="serialization"))
    text = F.try_validate_utf8(body.cast("string"))
    if isinstance(kind, T.StructType):
        return _from_json(text, kind)
    # Spark's parser does not read a JSON value alone. So a body that is not an object is put into an object, as its only field.
    wrapped = F.concat(F.lit('{"value":'), text, F.lit("}"))
    return _from_json(wrapped, T.StructType([T.StructField("value", kind)]))["value"]


def _from_json(text: Column, kind: T.StructType) -> Column:
    """Parse JSON. Text that is not JSON of this type gives null, not a struct of nulls."""
    fields = [*kind.fields, T.StructField(_CORRUPT, T.StringType())]
    found = F.from_json(text, T.StructType(fields), {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    return F.when(found[_CORRUPT].isNull(), found.dropFields(_CORRUPT))


def _from_avro(body: Column, schema: Mapping[str, Any]) -> Column:
    """Decode Avro. Broken bytes give null. If all fields of the schema are nullable, broken bytes give a struct of nulls."""
    found = from_avro(body, json.dumps(schema), {"mode": "PERMISSIVE"})
    if schema.get("type") != "record":
        return found
    certain = [field["name"] for field in schema["fields"] if not _nullable(field["type"])]
    return F.when(found[certain[0]].isNotNull(), found) if certain else found


def _nullable(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def spark_type(schema: Mapping[str, Any]) -> T.DataType:
    """Return Spark's type for a JSON schema of Pydantic. A type that Spark lacks becomes a string of JSON."""
    return _type(schema, schema.get("$defs", {}), 0)


def _type(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> T.DataType:
    if depth > _DEEPEST:
        return T.StringType()
    if "$ref" in schema:
        return _type(definitions[schema["$ref"].rpartition("/")[2]], definitions, depth + 1)
    if "anyOf" in schema:
        some = [it for it in schema["anyOf"] if it.get("type") != "null"]
        return _type(some[0], definitions, depth) if len(some) == 1 else T.StringType()
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return _type(schema["allOf"][0], definitions, depth)
    kind = schema.get("type")
    if kind == "object":
        return _object(schema, definitions, depth)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return T.ArrayType(_type(schema["items"], definitions, depth + 1))
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""), T.StringType())
    return _SCALARS.get(str(kind), T.StringType())


def _object(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> T.DataType:
    fields = schema.get("properties")
    if fields:
        return T.StructType([T.StructField(name, _type(it, definitions, depth + 1)) for name, it in fields.items()])
    values = schema.get("additionalProperties")
    return T.MapType(
        T.StringType(), _type(values, definitions, depth + 1) if isinstance(values, Mapping) else T.StringType()
    )
