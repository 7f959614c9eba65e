"""Adapts the generated requests to this service. The test passes the facts as JSON in the variable `KNOWN`."""

import json
import os

import schemathesis

KNOWN = json.loads(os.environ["KNOWN"])

# The run must keep its own credentials and permissions: earlier answers contain their ids and the name of their owner.
OWN = {name.casefold() for name in KNOWN["own"]}

# By operation, objects that can be named only once, because the request removes them.
ONCE = KNOWN["once"]

# By operation, bodies that are accepted, for operations that reject nearly all generated bodies.
BODIES = KNOWN["bodies"]

# Operations that replace the whole access model could leave the rest of the run without one. They are sent with a body that is
# known to be harmless, or else with an `If-Match` that does not match.
REPLACING = ("PUT /schema/import", "POST /schema/history/{version}/restore")


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    label = case.operation.label
    # Requests with other methods than the document's are sent too.
    positive = is_positive(case) and label.startswith(f"{case.method} ")
    if positive and ONCE.get(label):
        case.path_parameters.update(ONCE[label].pop())
    known = False
    if positive and BODIES.get(label) and case.media_type in (None, "application/json"):
        body = BODIES[label].pop()
        known = True
        if body is not None:
            case.body = body
    if label in REPLACING and "If-Match" in (case.headers or {}):
        case.headers["If-Match"] = "*" if known else '"0"'
    for name, value in (case.path_parameters or {}).items():
        if isinstance(value, str) and value.casefold() in OWN:
            case.path_parameters[name] = "spared"
    for name, value in (case.cookies or {}).items():
        if label == "POST /logout" and value == KNOWN["session"]:
            spare = positive and KNOWN["spare sessions"]
            case.cookies[name] = spare.pop() if spare else "spared"


@schemathesis.hook
def after_call(context, case, response):
    if 200 <= response.status_code < 300:
        with open(KNOWN["successes"], "a") as file:
            file.write(f"{case.method} {case.operation.path}\n")


@schemathesis.check
def readable_data_acceptance(context, response, case):
    """Checks that data that conform to the schema can be parsed. They may still not fit the state, which a schema cannot
    describe: cursors, roles that do not exist, policies that do not compile.
    """
    positive = is_positive(case)
    if case.media_type == "application/yaml":
        # In the schema, this is a string; a schema cannot describe YAML in it.
        return
    if positive and response.status_code == 400 and response.json()["code"] == "invalid_request":
        raise AssertionError(f"valid data were rejected as malformed: {response.text}")
    if positive and response.status_code in (405, 406, 413, 415):
        raise AssertionError(f"a valid request was refused: {response.text}")
