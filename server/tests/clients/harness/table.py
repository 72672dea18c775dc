"""The results as a Markdown table."""

import json


def markdown(results, title):
    lines = [
        f"# {title}",
        "",
        "Written by `server/tests/clients/run.sh`; don't edit. *equal*: body, tag, key and properties are what was sent.",
        "*again*: arrived more than once. *seconds*: of the whole step; for *restart* from the server's return to the",
        "last message; for *share* until the survivor owned all queues.",
        "",
        "| client | mode | sent | received | equal | again | seconds | result |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for client, row in results:
        counts = [str(n) if row.sent else "–" for n in (row.sent, row.received, row.equal, row.again)]
        lines.append("| " + " | ".join([client, row.mode, *counts, f"{row.seconds:.2f}", verdict(row)]) + " |")
    return "\n".join(lines) + "\n"


def verdict(row):
    if row.problems:
        return "**FAILED**: " + "; ".join(row.problems).replace("|", "\\|").replace("\n", " ")
    return "ok" + (f" ({row.note})" if row.note else "")


def as_json(results, facts):
    rows = [{"client": client, "passed": row.passed, **vars(row)} for client, row in results]
    return json.dumps({**facts, "rows": rows}, indent=1, ensure_ascii=False) + "\n"
