#!/usr/bin/env python3
"""Makes tests/testdata/data/chat/{templates,snippets}.json: what the real jinja2, set up as HF
transformers does it, renders from the chat templates beside them and from small snippets.
Needs `pip install jinja2` (and gguf with --gguf, which takes smollm2.jinja out of that file).

usage: make_chat_goldens.py REPOSITORY [--gguf FILE]
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
NOW = 1721606400  # 2024-07-22, midday enough for every time zone's date to be told apart


class Refusal(Exception):
    pass


def environment():
    def raise_exception(message):
        raise Refusal(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def strftime_now(form):
        return datetime.datetime.fromtimestamp(NOW).strftime(form)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(source, variables):
    """The text, or {"error": kind}."""
    try:
        return environment().from_string(source).render(**variables)
    except Refusal as e:
        return {"error": "chat_template.raised", "message": str(e)}
    except jinja2.TemplateSyntaxError as e:
        return {"error": "chat_template.syntax", "message": str(e)}
    except jinja2.UndefinedError as e:
        return {"error": "chat_template.undefined", "message": str(e)}
    except (TypeError, ValueError) as e:
        return {"error": "chat_template.type", "message": str(e)}


def say(role, content, **more):
    return dict({"role": role, "content": content}, **more)


TOOLS = [{"type": "function",
          "function": {"name": "add", "description": "Adds <two> \"numbers\" é",
                       "parameters": {"type": "object",
                                      "properties": {"a": {"type": "number", "default": 1.5},
                                                     "b": {"type": "number"}},
                                      "required": ["a", "b"]}}}]
CALL = {"id": "abcdefghi", "type": "function",
        "function": {"name": "add", "arguments": {"a": 1, "b": "zwei é"}}}

CONVERSATIONS = {
    "one": [say("user", "What is 2 + 2?")],
    "spaces": [say("user", "  padded \n\n"), say("assistant", " \n yes  "), say("user", "x")],
    "system": [say("system", "Be brief."), say("user", "Hi"), say("assistant", "Hello!"),
               say("user", "Bye")],
    "unicode": [say("user", "é 中文 😀 <|im_end|> 'quoted' \"twice\""), say("assistant", "ok")],
    "thinking": [say("user", "hello"), say("assistant", "world", reasoning_content="think one"),
                 say("user", "in"),
                 say("assistant", "the end", reasoning_content="think two")],
    "inline thinking": [say("user", "a"), say("assistant", "<think>\nwhy\n</think>\n\nb"),
                        say("user", "c"), say("assistant", "<think>\nso\n</think>\n\nd")],
    "empty": [say("user", ""), say("assistant", "")],
    "two users": [say("user", "a"), say("user", "b")],
    "tool": [say("user", "add 1 and 2"),
             say("assistant", "", tool_calls=[CALL]),
             say("tool", "3", tool_call_id="abcdefghi"),
             say("assistant", "It is 3.")],
    "bad role": [say("wizard", "abracadabra")],
}

SETTINGS = {
    "plain": {},
    "generate": {"add_generation_prompt": True},
    "no thinking": {"add_generation_prompt": True, "variables": {"enable_thinking": False}},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
}


def templates(folder):
    cases = []
    for path in sorted(folder.glob("*.jinja")):
        for name, messages in CONVERSATIONS.items():
            for setting, options in SETTINGS.items():
                variables = dict(TOKENS, messages=messages, documents=None,
                                 tools=options.get("tools"),
                                 add_generation_prompt=options.get("add_generation_prompt", False))
                variables.update(options.get("variables", {}))
                cases.append({"template": path.name, "conversation": name, "setting": setting,
                              "result": render(path.read_text(), variables)})
    return {"tokens": TOKENS, "conversations": CONVERSATIONS, "settings": SETTINGS, "cases": cases}


SNIPPETS = r"""
a{{ 1 }}b
{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ 1.5 }} {{ 1e20 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 3.0 }} {{ 1e16 }} {{ 123456789.0 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ true }} {{ False }} {{ none }} {{ missing }} {{ [1, 'a', none, 2.0, true] }} {{ {'a': 1, 'b': "it's"} }}
{{ "a" ~ 1 ~ none ~ true }} {{ 'ab' * 3 }} {{ "x" "y" }} {{ 'tab\tnl\\n \x41 \u00e9 \q' }}
{{ 1 < 2 <= 2 != 3 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ 1 == true }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1.0} }}
{{ 'a' in 'cat' }} {{ 'd' not in 'cat' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 1 in missing }} {{ not 1 in [2] }}
{{ 1 if true else 2 }} {{ 1 if false }} {{ 'x' if missing else 'y' }} {{ 0 or 'b' }} {{ 0 and 1 }} {{ not '' }}
{{ text[0] }} {{ text[-1] }} {{ text[1:3] }} {{ text[::-1] }} {{ text[:-2] }} {{ text[10:] }}| {{ text[::2] }} {{ text[99] }}|
{{ items[0] }} {{ items[-1] }} {{ items[1:] }} {{ items[::-1] }} {{ items[5:1:-2] }} {{ items[9] }}| {{ items.0 }}
{{ user.name }} {{ user['name'] }} {{ user.none_such }} {{ user.get('age') }} {{ user.get('x', 'dflt') }} {{ user.get('x') }}
{% for k, v in user.items() %}{{ k }}={{ v }};{% endfor %} {{ user | items | list }} {{ user.keys() | list }} {{ user.values() | list }}
{% for x in items %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for x in items if x > 1 %}{{ x }}{{ loop.length }}{% else %}none{% endfor %} {% for x in [] %}{{ x }}{% else %}empty{% endfor %}
{% for x in items %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in text %}{{ x }}.{% endfor %} {% for k in user %}{{ k }},{% endfor %} {% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }} {% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }} {% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(n=0, s='') %}{% for i in items %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }} {{ ns.s }}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set block %}in{{ a }}side{% endset %}{{ block }} {{ (1, 2) | list }} {{ () | length }}
{% macro hi(name, greet='Hi', n=1) %}{{ greet }} {{ name }}{{ n }}!{% endmacro %}{{ hi('a') }} {{ hi('b', 'Yo') }} {{ hi(n=3, name='c') }} {{ hi() }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{{ '  x ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ 'aB' | upper }} {{ 'aB' | lower }} {{ 'aB cD' | capitalize }} {{ 'hello world' | title }}
{{ items | length }} {{ text | length }} {{ user | count }} {{ missing | length }} {{ items | first }} {{ items | last }} {{ [] | first }}|
{{ missing | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ none | default('d') }} {{ none | d('e', boolean=true) }}
{{ items | join(', ') }} {{ items | join }} {{ people | join(';', attribute='name') }} {{ 'aXbX' | replace('X', 'yy') }} {{ 'aaa' | replace('a', 'b', 2) }}
{{ people | map(attribute='name') | list }} {{ ['a', 'b'] | map('upper') | join }} {{ people | map(attribute='zip', default='?') | list }}
{{ people | selectattr('age') | map(attribute='name') | join }} {{ people | selectattr('age', 'equalto', 3) | list | length }} {{ people | rejectattr('age', 'gt', 2) | map(attribute='name') | join }}
{{ items | select('odd') | list }} {{ items | reject('odd') | list }} {{ [0, 1, ''] | select | list }} {{ items | reverse | list }} {{ 'abc' | reverse }}
{{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '1.5' | float }} {{ 2 | float }} {{ -3 | abs }} {{ 5 | string ~ 'x' }} {{ 'a' | safe }}
{{ user | tojson }} {{ items | tojson }} {{ 'é"\n/<>&\'\u007f' | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ 1.0 | tojson }} {{ none | tojson }} {{ true | tojson }}
{{ user | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=4) }} {{ {'b': [1, {'c': 2}], 'a': 1} | tojson(indent=1, sort_keys=true) }}
{{ user | tojson(separators=(',', ':')) }} {{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2, true) }}
{{ missing is defined }} {{ text is defined }} {{ none is none }} {{ text is string }} {{ user is mapping }} {{ items is iterable }} {{ 1 is iterable }} {{ items is sequence }} {{ text is sequence }}
{{ 1 is number }} {{ true is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ missing is undefined }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge(2) }} {{ 'a' is in ['a'] }} {{ none is sameas none }} {{ text is not none }} {{ 'AB' is upper }} {{ 'ab' is lower }}
{{ not missing is defined and text is string }} {{ text is string and items is mapping or true }} {{ raise_exception is defined }} {{ range is callable }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ ' a '.strip() }}| {{ ' a '.lstrip() }}| {{ ' a '.rstrip() }}| {{ 'xyax'.strip('xy') }} {{ 'é é'.strip('é') }}|
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ ' a b c'.split(none, 1) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ ''.split() }} {{ ''.split(',') }}
{{ 'a</think>b'.split('</think>')[-1] }} {{ 'ab'.upper() }} {{ 'AB'.lower() }} {{ 'hello wORLD'.title() }} {{ 'hELLO'.capitalize() }} {{ 'aXa'.replace('a', 'b') }} {{ 'ab'.replace('', '-') }}
{{ ', '.join(['a', 'b']) }} {{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'é中x'.find('x') }} {{ 'aXbX'.count('X') }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ 'a\nb\r\nc'.splitlines() }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }} {{ [1, 2, 1].count(1) }} {{ ['a', 'b'].index('b') }} {{ 'ß é'.upper() }} {{ (1,) }} {{ (1, 'a') }} {{ 1, 2 }}
{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }} {{ dict(a=1, b='x') }} {{ dict({'a': 1}, c=2).c }}
{{ {'a': {'b': [1, {'c': 'deep'}]}}.a.b[1].c }} {{ [[1, 2], [3]] | map('length') | list }} {{ [{'a': {'b': 5}}] | map(attribute='a.b') | list }}
{{ {'b': 1, 'A': 2, 'c': 0} | dictsort }} {{ {'b': 1, 'A': 2, 'c': 0} | dictsort(true, reverse=true) }}
{{ "nested 'quotes'" }} {{ ["it's", 'say "x"', 'both \' and "', 'back\\slash', 'tab\t', 'é\u200b\u00a0'] }}
{# comment #}x{#- trimmed -#} y
{% raw %}{{ not run }} {% if %}{% endraw %} done
{%- if true -%}   a   {%- endif -%}   b
   {%+ if true %} plus {% endif +%}
line {{- ' x ' -}} end
{% if false %}a{% elif 0 %}b{% elif 'x' %}c{% else %}d{% endif %} {% if missing %}a{% else %}b{% endif %}
{{ strftime_now('%Y') }} {{ strftime_now('%d %b %Y') | length }} {% if strftime_now is defined %}yes{% endif %}
{{ (1, 2)[0] }} {{ -items[0] }} {{ - 3 + 5 }} {{ +2 }} {{ 2 * -1 }} {{ (2 + 3) * 2 }} {{ not true or true }} {{ 10 - 2 - 3 }} {{ 2 + 2 ~ 'x' }}
{{ items + [4] }} {{ 'a' if 'b' else 'c' if 'd' else 'e' }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ 1_000 }}
{{ people[0].name ~ (', ' if not false else '') ~ people[1]['name'] }} {{ 'x' | default | upper | lower }} {{ 1 | string | length }}
{{ raise_exception('no ' ~ 'way') }}
{{ missing.attribute }}
{{ missing + 'a' }}
{{ 'a' + 1 }}
{{ none + 'a' }}
{{ 1 | length }}
{{ [1] + 'a' }}
{{ 1 < 'a' }}
{% for x in 5 %}{% endfor %}
{{ 'abc'.split('') }}
{% if %}x{% endif %}
{{ 1 + }}
{% for x in y %}
{% unknown %}
{{ 'open }}
{{ (1 }}
{{ a b }}
{% endif %}
{{ }}
{% set = 3 %}
""".strip("\n").split("\n")

SNIPPETS += [
    "  {% if true %}\n  kept\n  {%- endif %}  tail",
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "a\n   {% if true %}  \n   b\n   {% endif %}\n  c\n\n",
    "{% for x in [1,2] %}\n  {{ x }}\n{% endfor %}\nend", "x  \n\n {%- if true %}\n\n y {% endif -%} \n z",
    "{# c #}\nafter", "  {# c #}\nafter", "a\r\nb\r\n{% if true %}\r\nc{% endif %}\r\n", "{{ 'a' }}\n",
    "{% set x = 'multi\nline' %}{{ x }}", "{{ {'a':\n 1} }}", "\n\n{{ 1 }}\n\n", "{{ '}}' }} {{ '%}' }}",
    "a {{- '' }}\n b", "{%- for m in people -%}\n {{ m.name }} \n{%- endfor -%}", "",
    "{% macro m() %}\n  x\n{% endmacro %}\n{{ m() }}|", "{% raw -%}  x  {%- endraw %} y",
    "{% set content %}{% for p in people %}{{ p.name }}{% if not loop.last %}, {% endif %}{% endfor %}{% endset %}{{ content | upper }}",
]

VARIABLES = {"text": "abcdé", "items": [1, 2, 3], "user": {"name": "Ann", "age": 3, "tags": ["x", "é"]},
             "people": [{"name": "Ann", "age": 3}, {"name": "Bob", "age": 2}, {"name": "Cy", "age": 0}]}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=True, indent=0) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1]) / "tests" / "testdata" / "data" / "chat"
    if "--gguf" in sys.argv:
        from gguf import GGUFReader
        reader = GGUFReader(sys.argv[sys.argv.index("--gguf") + 1])
        source = reader.fields["tokenizer.chat_template"].contents()
        (folder / "smollm2.jinja").write_text(source)
    write(folder / "templates.json", templates(folder))
    write(folder / "snippets.json",
          {"now": NOW, "variables": VARIABLES,
           "cases": [{"source": s, "result": render(s, VARIABLES)} for s in SNIPPETS]})


main()
