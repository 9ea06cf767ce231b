"""What requests to a registry have in common that no schema can say. Loaded by schemathesis."""
import re
import urllib.parse
import xml.etree.ElementTree as ET
import zlib

import schemathesis

NUMBERS = {
    "countryId", "durationInSecs", "evictionTimestamp", "lastDirtyTimestamp", "lastRenewalTimestamp", "lastUpdatedTimestamp",
    "port", "registrationTimestamp", "renewalIntervalInSecs", "securePort", "serviceUpTimestamp", "versions__delta",
}
LISTS = {"applications": "application", "application": "instance"}  # element -> what it has any number of


@schemathesis.hook
def filter_case(_context, case):
    """A head beyond twice its limit (8 KiB) may find its connection closed, which is no answer to look at."""
    return len(urllib.parse.quote(f"{case.path_parameters} {case.query} {case.headers}", errors="replace")) < 12_000


@schemathesis.hook
def before_call(_context, case, _kwargs):
    ask_for_a_type(case)
    name_the_same_application(case)


def ask_for_a_type(case):
    """`Accept` is no parameter of OpenAPI: every type that is described is asked for, and now and then one that is not."""
    described = {kind for answer in case.operation.definition.raw.get("responses", {}).values()
                 for kind in content_of(answer, case) if kind != "application/problem+json"}
    choices = sorted(described) + ["*/*"] + ["image/png"] * (zlib.crc32(repr(case.query).encode()) % 8 == 0)
    asked = f"{case.method} {case.path} {case.path_parameters} {case.query} {case.headers}".encode(errors="replace")
    case.headers["Accept"] = choices[zlib.crc32(asked) % len(choices)]


def content_of(answer, case):
    if "$ref" in answer:
        name = answer["$ref"].rsplit("/", 1)[1]
        answer = case.operation.schema.raw_schema["components"]["responses"][name]
    return answer.get("content", {})


def name_the_same_application(case):
    """A registration names its application twice, in the path and in the body; and XML cannot carry every character."""
    if case.operation.definition.raw.get("operationId") != "registerInstance" or not isinstance(case.body, dict):
        return
    is_xml = "xml" in (case.media_type or "")
    instance = case.body if is_xml else case.body.get("instance")
    named = (case.path_parameters or {}).get("app")
    if not isinstance(instance, dict) or not isinstance(named, str):
        return
    name = urllib.parse.unquote(named)
    if is_xml and not re.fullmatch(r"[!-~ ]*[!-~]", name):
        case.path_parameters["app"] = name = "BILLING"
    if isinstance(instance.get("app"), str) and instance["app"]:
        instance["app"] = name
    for field in ("hostName", "ipAddr", "instanceId") if is_xml else ():
        if isinstance(instance.get(field), str) and instance[field] and not re.search(r"[!-~]", instance[field]):
            instance[field] = "h1"


@schemathesis.deserializer("application/xml")
def read_xml(_context, response):
    """XML in the shape of the schemas: well formed or an error, numbers and lists where the schemas have them."""
    try:
        return value_of(ET.fromstring(response.content))
    except ET.ParseError as e:
        raise ValueError(f"not well formed: {e}") from e


def value_of(element):
    children = list(element)
    if not children:
        text = element.text or ""
        if element.tag in NUMBERS:
            return int(text)
        return {} if element.tag in ("metadata", "responseList") else text
    many, members = LISTS.get(element.tag), {}
    for child in children:
        if child.tag == many:
            members.setdefault(child.tag, []).append(value_of(child))
        else:
            members[child.tag] = value_of(child)
    return members
