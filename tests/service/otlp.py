# SPDX-License-Identifier: Apache-2.0
"""Reads a line of OTLP/JSON by the JSON mapping of protobuf: messages of opentelemetry/proto/trace/v1/trace.proto and its relatives, as far as a trace
without events and links has them. What they do not know is an error. Ids are the exception that OTLP makes: hexadecimal, not base64."""

import json

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

KINDS = {"string": 9, "bytes": 12, "fixed64": 6, "int64": 3, "uint32": 13, "bool": 8, "double": 1}
# message: its fields as (name, number, kind or message, is it a list)
MESSAGES = {
    "AnyValue": [("string_value", 1, "string", 0), ("bool_value", 2, "bool", 0), ("int_value", 3, "int64", 0), ("double_value", 4, "double", 0)],
    "KeyValue": [("key", 1, "string", 0), ("value", 2, "AnyValue", 0)],
    "InstrumentationScope": [("name", 1, "string", 0), ("version", 2, "string", 0), ("attributes", 3, "KeyValue", 1), ("dropped_attributes_count", 4, "uint32", 0)],
    "Resource": [("attributes", 1, "KeyValue", 1), ("dropped_attributes_count", 2, "uint32", 0)],
    "Status": [("message", 2, "string", 0), ("code", 3, "StatusCode", 0)],
    "Span": [("trace_id", 1, "bytes", 0), ("span_id", 2, "bytes", 0), ("trace_state", 3, "string", 0), ("parent_span_id", 4, "bytes", 0), ("name", 5, "string", 0),
             ("kind", 6, "SpanKind", 0), ("start_time_unix_nano", 7, "fixed64", 0), ("end_time_unix_nano", 8, "fixed64", 0), ("attributes", 9, "KeyValue", 1),
             ("status", 15, "Status", 0)],
    "ScopeSpans": [("scope", 1, "InstrumentationScope", 0), ("spans", 2, "Span", 1), ("schema_url", 3, "string", 0)],
    "ResourceSpans": [("resource", 1, "Resource", 0), ("scope_spans", 2, "ScopeSpans", 1), ("schema_url", 3, "string", 0)],
    "ExportTraceServiceRequest": [("resource_spans", 1, "ResourceSpans", 1)],
}
ENUMS = {
    "SpanKind": ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"],
    "StatusCode": ["UNSET", "OK", "ERROR"],
}


def request_class():
    f = descriptor_pb2.FileDescriptorProto(name="otlp.proto", package="otlp", syntax="proto3")
    for name, values in ENUMS.items():
        e = f.enum_type.add(name=name)
        for number, value in enumerate(values):
            e.value.add(name=f"{name}_{value}", number=number)
    for name, fields in MESSAGES.items():
        m = f.message_type.add(name=name)
        for field, number, kind, is_list in fields:
            row = m.field.add(name=field, number=number, label=3 if is_list else 1)
            row.type = KINDS.get(kind) or (14 if kind in ENUMS else 11)
            if kind not in KINDS:
                row.type_name = f".otlp.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(f)
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("otlp.ExportTraceServiceRequest"))


REQUEST = request_class()


def hexadecimal(text, digits):
    assert len(text) == digits and set(text) <= set("0123456789abcdef") and set(text) != {"0"}, text


def spans(line):
    """Name to span, in their order. Fails if the line is not of that form."""
    request = json_format.Parse(line, REQUEST())
    raw = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    (of,) = request.resource_spans
    assert {a.key: a.value.string_value for a in of.resource.attributes}["service.name"] == "bawnd"
    found = {}
    for span, text in zip(of.scope_spans[0].spans, raw):
        hexadecimal(text["traceId"], 32)
        hexadecimal(text["spanId"], 16)
        assert isinstance(text["startTimeUnixNano"], str) and isinstance(text["endTimeUnixNano"], str) and span.kind == 1
        assert text["traceId"] == raw[0]["traceId"] and span.name not in found
        found[span.name] = {
            "trace": text["traceId"], "id": text["spanId"], "parent": text.get("parentSpanId", ""), "start": span.start_time_unix_nano,
            "end": span.end_time_unix_nano, "status": span.status.code,
            "attributes": {a.key: getattr(a.value, next(n for n, *_ in MESSAGES["AnyValue"] if n.split("_")[0] + "Value" in t["value"]))
                           for a, t in zip(span.attributes, text.get("attributes", []))},
        }
    return found
