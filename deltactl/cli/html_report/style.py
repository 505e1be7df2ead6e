"""Define the style sheet of a report: light and dark, wide and narrow screens, print."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b2430;--faint:#566273;
--line:#dce1e8;--track:#e3e7ed;--before:#c2700c;--after:#0f766e;--good:#0b6b4f;--goodbg:#d9f2e6;
--caution:#8a4b00;--cautionbg:#fdecc8;--bad:#a01c1c;--badbg:#fbdcdc;--plain:#3d4a5c;
--plainbg:#e3e7ed}@media(prefers-color-scheme:dark){:root{--page:#12161c;--card:#1b212a;
--ink:#e6eaf0;--faint:#9aa6b6;--line:#313a47;--track:#333d4a;--before:#e09a3a;--after:#35b8a6;
--good:#7fe0b6;--goodbg:#12402f;--caution:#f6cf86;--cautionbg:#4a3408;--bad:#ffb0b0;
--badbg:#571e1e;--plain:#c6d0dd;--plainbg:#333d4a}}*{box-sizing:border-box}body{margin:0;
background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}header,main,footer{
max-width:62rem;margin:0 auto;padding:0 1.25rem}header{padding-top:1.75rem}header p,footer,.faint{
color:var(--faint)}h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:0 0 .5rem;
overflow-wrap:anywhere}h3{font-size:1rem;margin:1.75rem 0 .5rem}p{margin:.4rem 0}header p{
margin:.1rem 0 1rem}section{background:var(--card);border:1px solid var(--line);
border-radius:10px;padding:1.25rem 1.4rem;margin:0 0 1.1rem}bdi{overflow-wrap:anywhere}.badge{
display:inline-block;border-radius:999px;padding:0 .65em;font-size:.85em;font-weight:600;
white-space:nowrap;margin-right:.35em;color:var(--plain);background:var(--plainbg)}.good{
color:var(--good);background:var(--goodbg)}.caution{color:var(--caution);
background:var(--cautionbg)}.bad{color:var(--bad);background:var(--badbg)}.error{
border-left:4px solid var(--bad);background:var(--badbg);padding:.4rem .9rem;margin:.8rem 0;
border-radius:4px}.summary{font-size:1.25rem;font-weight:600}.summary .badge{font-size:.75em}
figure{margin:.75rem 0}figcaption{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;
margin-bottom:.6rem;font-size:.9em}.key{display:inline-flex;align-items:center;gap:.45em}svg{
display:block;overflow:hidden}.fill-caution{fill:var(--before)}.fill-good{fill:var(--after)}
.fill-faint{fill:var(--track)}.text-bad{color:var(--bad)}.text-caution{color:var(--caution)}
.text-faint{color:var(--faint)}.ends{display:flex;justify-content:space-between;font-size:.85em;
color:var(--faint)}.scroll{overflow-x:auto}table{border-collapse:collapse;min-width:min(100%,
36rem);font-variant-numeric:tabular-nums}table:has(.bar){width:100%}th,td{padding:.3rem .7rem;
text-align:left;border-top:1px solid var(--line);vertical-align:top}th:first-child,td:first-child{
padding-left:0}thead th{border-top:0;color:var(--faint);font-size:.85em;font-weight:400;
white-space:nowrap}.number{text-align:right;white-space:nowrap}.word{white-space:nowrap}td.bar{
width:30%;min-width:4rem;padding-top:.65rem}.fields{display:grid;
grid-template-columns:max-content 1fr;gap:.15rem 1.1rem;margin:1rem 0 0}.fields dt{
color:var(--faint)}.fields dd{margin:0;overflow-wrap:anywhere}code{font:13px/1.5 ui-monospace,
monospace}pre{background:var(--page);border:1px solid var(--line);border-radius:6px;
padding:.6rem .8rem;margin:.5rem 0;white-space:pre-wrap;overflow-wrap:anywhere}footer{
font-size:.85em;padding-bottom:2rem}@media(max-width:40rem){.wide{display:none}header,main,footer{
padding-left:.6rem;padding-right:.6rem}section{padding:.9rem}.fields{grid-template-columns:1fr}
.fields dd{margin-bottom:.4rem}th,td{padding:.3rem .4rem}td{
min-width:7rem}.word,.number{min-width:0}.detail{min-width:14rem}}@media print{:root{
color-scheme:light;
--page:#fff;--card:#fff;--ink:#000;--faint:#444;--line:#bbb;--track:#ddd;--before:#c2700c;
--after:#0f766e;--good:#0b6b4f;--goodbg:#fff;--caution:#8a4b00;--cautionbg:#fff;--bad:#a01c1c;
--badbg:#fff;--plain:#000;--plainbg:#fff}body{font-size:10pt}section{border:0;padding:0}.badge{
border:1px solid}figure,tr,.error{break-inside:avoid}h2,h3{break-after:avoid}svg{
print-color-adjust:exact;-webkit-print-color-adjust:exact}.scroll{overflow:visible}}
"""
