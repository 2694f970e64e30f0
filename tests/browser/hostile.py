"""Two hundred bodies that would like to be something else than text, and keys, tags and properties of the same kind.

Each that could run would count itself in ``window.ran``.
"""

import json

_RUN = "window.ran=(window.ran||0)+1"

_MARKUP = (
    f"<script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"<SCRIPT SRC=data:text/javascript,{_RUN}></SCRIPT>",
    f"<img src=x onerror={_RUN}>",
    f"<img/src='x'/onerror='{_RUN}'>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<body onload={_RUN}>",
    f"<iframe src=javascript:{_RUN}></iframe>",
    f"<iframe srcdoc='<script>{_RUN}</script>'></iframe>",
    f"<a href=javascript:{_RUN}>click</a>",
    f"<a href='jAvAsCrIpT:{_RUN}'>x</a>",
    f"<details open ontoggle={_RUN}>",
    f"<input autofocus onfocus={_RUN}>",
    f"<video><source onerror={_RUN}></video>",
    f"<object data=javascript:{_RUN}></object>",
    f"<embed src=javascript:{_RUN}>",
    f"<math><mtext></mtext><mglyph><style><img src=x onerror={_RUN}></style></math>",
    f"<form action=javascript:{_RUN}><button>x</button></form>",
    f"<meta http-equiv=refresh content='0;url=javascript:{_RUN}'>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{display:none}</style>",
    f"<style>@import 'javascript:{_RUN}';</style>",
    f"<marquee onstart={_RUN}>",
    f"<template><script>{_RUN}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={_RUN}>'>",
    "<plaintext>",
    "<textarea></textarea>",
    "<!-- a comment --><!doctype html><html><head><title>x</title></head>",
    "<![CDATA[ <b>x</b> ]]>",
    "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>",
    f"'\"><script>{_RUN}</script>",
    f'"><img src=x onerror="{_RUN}">',
    f"`-({_RUN})-`",
    f"');{_RUN};('",
    f"javascript:{_RUN}",
    f"data:text/html,<script>{_RUN}</script>",
    f"vbscript:{_RUN}",
    f"<x onclick={_RUN} style=position:fixed;inset:0>cover</x>",
    "<dialog open>caught</dialog>",
    "<table><tr><td>cell</table>",
    "<custom-element></custom-element>",
    "<slot name=x></slot>",
)
_TEMPLATES = (
    f"${{{_RUN}}}",
    f"{{{{constructor.constructor('{_RUN}')()}}}}",
    f"<%= {_RUN} %>",
    f"#{{{_RUN}}}",
    f"{{%% {_RUN} %%}}",
    f"html`<script>{_RUN}</script>`",
    "${`${`x`}`}",
    "{n} message|{n} messages",
    "__html",
    '{"__html": "<b>x</b>"}',
    '{"type": "script", "props": {"children": "x"}}',
    '{"dangerouslySetInnerHTML": {"__html": "<b>x</b>"}}',
)
_JSON = (
    '{"__proto__": {"polluted": true}}',
    '{"constructor": {"prototype": {"polluted": true}}}',
    '[{"__proto__": {"polluted": true}, "toString": null, "valueOf": 1}]',
    '{"lone": "\\ud800", "other": "\\udfff\\ud800"}',
    '{"a": 1, "a": 2}',
    '{"big": 12345678901234567890123, "small": 1e-400, "minus": -0}',
    '{"text": "\\u003cscript\\u003e' + _RUN + '\\u003c/script\\u003e"}',
    "[" * 2000 + "]" * 2000,
    '{"a":' * 500 + "1" + "}" * 500,
    '"only a text"',
    "null",
    "NaN",
    "{'single': 'quotes'}",
    '{"unterminated": "',
    '{"toJSON": "x", "length": -1, "then": "x"}',
)
_SIGNS = (
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&amp;&nbsp;&#x3c;b&#x3e;&#0;&notin;&unknown;",
    '=HYPERLINK("http://evil.example","x")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "+1+1, -1-1, \t=1",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b[0m",
    "\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07",
    "one\x00two\x00",
    "\x00",
    "\x07\x08\x0b\x0c\x0e\x7f\x80\x9f",
    "user\u202egnp.exe",
    "\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f left open \u202e",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 (left) 123 \u05e2\u05d1\u05e8\u05d9\u05ea",
    "zero\u200bwidth\u200cjoin\u200der\ufeff",
    "\ufeffwith a mark at its beginning",
    "\u2028line\u2029paragraph\u0085next",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f" * 20,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f4\U000e0067\U000e0062\U000e007f",
    "\U000e0041\U000e0042 tags",
    "\ufffe\uffff\ufffd",
    "line\r\nline\rline\n\n\tindented   spaces   ",
    "   leading and trailing   ",
    "\n\n\n",
    "../../../../etc/passwd",
    "%3Cscript%3E%00%0d%0aSet-Cookie:x=1",
    "data: {}\n\nevent: end\ndata: null\n\n",
    "event: trouble\ndata: x\n\n: comment",
    "'; DROP TABLE messages; --",
    "\\u003cscript\\u003e \\x3c \\0",
    "x" * 5_000,
    "<b>" * 3_000,
    "\u202e" * 1_000,
    "a\u0300" * 2_000,
    "line\n" * 3_000,
    "字" * 60_000,
    "<script>" + "y" * 200_000,
)
_BYTES = (
    b"\xff\xfe\xfd",
    b"\xc3\x28 \xa0\xa1 \xe2\x28\xa1",
    b"\xed\xa0\x80 half of a pair \xed\xbf\xbf",
    b"\xc0\xaf\xe0\x80\xaf overlong",
    b"\xf4\x90\x80\x80 too high",
    b"<script>" + _RUN.encode() + b"</script>\xff",
    b"\x89PNG\r\n\x1a\n<svg onload=1>",
    b"\x1f\x8b\x08\x00" + bytes(range(256)),
    bytes(range(256)) * 3,
    "<b>".encode("utf-16"),
    b"\x00" * 4096 + b"\xff",
    b"+ADw-script+AD4-\xfe",
)


def _all() -> tuple[bytes, ...]:
    texts = (*_MARKUP, *_TEMPLATES, *_JSON, *_SIGNS)
    plain = [text.encode() for text in texts]
    in_json = [json.dumps({"note": text, text[:100]: [text]}, ensure_ascii=False).encode() for text in texts[:72]]
    broken = [text.encode() + b"\xff\xc3" for text in _MARKUP]
    return tuple(dict.fromkeys((*plain, *_BYTES, *in_json, *broken)))[:200]


HOSTILE = _all()


def hostile_word(number: int) -> str:
    """Return something of the same kind that can be a key, a tag, or a property: no blanks, and not long."""
    texts = (*_MARKUP, *_TEMPLATES, *_SIGNS)
    text = texts[number % len(texts)][:120]
    return "".join("_" if each in " \x01\x02\n\t\r" else each for each in text) or "_"


def shown_start(body: bytes) -> str:
    """Return what a list shows of a body: its first letters, or its first bytes if it does not begin as a text."""
    for cut in range(4 if len(body) > 640 else 1):
        try:
            return body[: 640 - cut].decode()[:160]
        except UnicodeDecodeError:
            continue
    return body[:24].hex(" ")


def shown_text(body: bytes, most: int = 64 * 1024) -> str:
    """Return the text that a viewer shows of a body: its beginning, if it is a long one."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return body[:most].decode(errors="replace")
    return body[:most].decode(errors="ignore")
