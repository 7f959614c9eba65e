"""Evaluates policies with cel-python, for `differential/cel_python.rs`.

Reads JSON lines `{"expression": …, "user": {…}, "spans": [{…}], "expected": ["true", …]}` and answers each with one line
of results, one for each span. A span holds what the expression names: a value, a map of values, or `{"error": true}` for
a value that is there and cannot be read. What is absent is left out.

A result is `[verdict, corrections]`. Where the library as it is says `expected`, there are no corrections. Where it does
not, it is asked again with one of the deviations from CEL below put right, then with all of them: the corrections name
what it took. An answer that stays different comes with `["none"]`.
"""

import json
import sys

import celpy
from celpy import celtypes, evaluation
from celpy.evaluation import CELEvalError


class Unreadable(CELEvalError):
    """A value that is there and is an error to look at."""


def cel(value):
    if isinstance(value, str):
        return celtypes.StringType(value)
    if isinstance(value, bool):
        return celtypes.BoolType(value)
    if isinstance(value, list):
        return celtypes.ListType([cel(element) for element in value])
    if value.get("error") is True:
        return Unreadable("unreadable")
    members = celtypes.MapType()
    for name, member in value.items():
        members[celtypes.StringType(name)] = cel(member)
    return members


# What no data can say: that a key is there although its value is an error. The library's `has` is given that.
stock_has = evaluation.Evaluator.macro_has_eval


def has(self, exprlist):
    values = self.visit_children(exprlist)
    if isinstance(values[0], Unreadable):
        return celtypes.BoolType(True)
    return celtypes.BoolType(not isinstance(values[0], CELEvalError))


evaluation.Evaluator.macro_has_eval = has


# Deviations of cel-python from CEL, each with what puts it right.

def first_error(*values):
    return next((value for value in values if isinstance(value, CELEvalError)), None)


def kind(value):
    for known in (celtypes.BoolType, celtypes.StringType, celtypes.IntType, celtypes.ListType, celtypes.MapType):
        if isinstance(value, known):
            return known
    return type(value)


def equal(left, right):
    """Values of unlike types are unequal, which is no error; so it is for elements of lists."""
    if kind(left) is not kind(right):
        return False
    if isinstance(left, celtypes.ListType):
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right))
    return bool(left == right)


def equals(left, right):
    return first_error(left, right) or celtypes.BoolType(equal(left, right))


def differs(left, right):
    return first_error(left, right) or celtypes.BoolType(not equal(left, right))


def stock_in(item, container):
    return evaluation.operator_in(item, container)


def contains_equal(item, container):
    error = first_error(item, container)
    if error is not None:
        return error
    if isinstance(container, celtypes.StringType):
        return stock_in(item, container)
    return celtypes.BoolType(any(equal(element, item) for element in container))


def not_in_strings(within):
    """A string is no list: `in` does not look into it."""

    def operator(item, container):
        error = first_error(item, container)
        if error is not None:
            return error
        if not isinstance(container, (celtypes.ListType, celtypes.MapType)):
            return CELEvalError("no such overload")
        return within(item, container)

    return operator


def strings_only(function):
    def method(text, argument):
        error = first_error(text, argument)
        if error is not None:
            return error
        if not (isinstance(text, celtypes.StringType) and isinstance(argument, celtypes.StringType)):
            return CELEvalError("no such overload")
        return function(text, argument)

    return method


def unlike_values(functions, _):
    functions["_==_"] = equals
    functions["_!=_"] = differs
    functions["_in_"] = contains_equal


def in_strings(functions, _):
    functions["_in_"] = not_in_strings(functions.get("_in_", stock_in))


def contains_of_lists(functions, _):
    functions["contains"] = strings_only(evaluation.function_contains)


class Macros(evaluation.Evaluator):
    """The corrections of macros."""

    over_strings = False
    errors_within = False

    def sub_evaluator(self, ast):
        return type(self)(ast, activation=self.activation)

    def member_dot_arg(self, tree):
        name = tree.children[1].value
        if name not in ("exists", "all", "exists_one"):
            return super().member_dot_arg(tree)
        if self.over_strings or (self.errors_within and name == "exists_one"):
            elements = self.visit(tree.children[0])
            if isinstance(elements, CELEvalError):
                return elements
            if self.over_strings and not isinstance(elements, (celtypes.ListType, celtypes.MapType)):
                return CELEvalError("no such overload")
            if self.errors_within and name == "exists_one":
                body = self.build_ss_macro_eval(tree)
                results = [body(element) for element in elements]
                for result in results:
                    if not isinstance(result, celtypes.BoolType):
                        return result if isinstance(result, CELEvalError) else CELEvalError("no such overload")
                return celtypes.BoolType(sum(1 for result in results if result) == 1)
        return super().member_dot_arg(tree)


def macros_over_strings(_, evaluator):
    evaluator.over_strings = True


def errors_within_exists_one(_, evaluator):
    evaluator.errors_within = True


stock_repr = CELEvalError.__repr__


def describable_errors(_, __):
    """Describing an error that was caused by an error never fails."""
    CELEvalError.__repr__ = lambda error: f"CELEvalError(*{error.args})"


CORRECTIONS = {
    "unlike_values": unlike_values,
    "in_strings": in_strings,
    "contains_of_lists": contains_of_lists,
    "macros_over_strings": macros_over_strings,
    "errors_within_exists_one": errors_within_exists_one,
    "describable_errors": describable_errors,
}


def verdict(result):
    if isinstance(result, celtypes.BoolType):
        return "true" if result else "false"
    return "error"


def run(environment, ast, activation, corrections):
    functions = {}
    base = evaluation.Evaluator if not corrections else type("Corrected", (Macros,), {})
    for name in corrections:
        CORRECTIONS[name](functions, base)
    runner = environment.program(ast, functions=functions)
    try:
        return verdict(base(ast=ast, activation=runner.new_activation()).evaluate(activation))
    except CELEvalError:
        return "error"
    except Exception as error:  # Errors that the library does not raise on purpose are reported separately.
        return "raised " + type(error).__name__
    finally:
        CELEvalError.__repr__ = stock_repr


def judged(environment, ast, activation, expected):
    as_it_is = run(environment, ast, activation, [])
    if as_it_is == expected:
        return [as_it_is, []]
    for name in CORRECTIONS:
        if run(environment, ast, activation, [name]) == expected:
            return [as_it_is, [name]]
    if run(environment, ast, activation, list(CORRECTIONS)) == expected:
        return [as_it_is, list(CORRECTIONS)]
    return [as_it_is, ["none"]]


def main():
    environment = celpy.Environment()
    for line in sys.stdin:
        asked = json.loads(line)
        ast = environment.compile(asked["expression"])
        user = cel(asked["user"])
        results = []
        for span, expected in zip(asked["spans"], asked["expected"]):
            activation = {name: cel(value) for name, value in span.items()}
            activation["user"] = user
            results.append(judged(environment, ast, activation, expected))
        print(json.dumps(results), flush=False)


if __name__ == "__main__":
    main()
