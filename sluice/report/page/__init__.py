"""The report on captures: one page of HTML that needs no network and no other file.

bounds: tables of bounded size. text: the safe form of hostile text, and numbers with units. findings: what is worth a
look, with reasons. timeline, flows, applications, more: aggregates, each of the rows of some logs. facts: all of them,
and their values as JSON. html: elements, which escape what they contain. charts, sections, lists: parts of the page.
document: the page, with page.css and page.js.

No aggregate grows with the capture: each has a bound, and counts omitted entries.
"""
