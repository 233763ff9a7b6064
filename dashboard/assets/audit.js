"use strict";
// The evidence: verifying it, and comparing it with a head that was kept.
(() => {
  const { $, call, forms, presses, nothing, spell } = sallyport;

  function element(tag, text, kind) {
    const e = document.createElement(tag);
    e.textContent = text;
    if (kind) e.className = kind;
    return e;
  }

  const kinds = {
    altered: "A row is not as it was sealed", removed: "A row that was sealed is gone", unchained: "A row ended and was never sealed",
    link: "A link of the chain does not fit the one before", head: "The head does not fit the chain", checkpoint: "A checkpoint does not fit", cut_off: "The end of the chain was cut off",
  };
  const many = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

  function fault(f) {
    const li = element("li", "");
    li.append(element("b", kinds[f.kind] || f.kind), element("p", spell(f.message)));
    const at = [f.seq && "link " + f.seq, f.row && spell(f.row)].filter(Boolean).join(", ");
    if (at) li.append(element("small", "At " + at + "."));
    return li;
  }

  // report says what a look through the chain found.
  function report(r, kept) {
    const box = $("#report"), out = [];
    out.push(element("p", r.ok ? "The evidence holds." : "The evidence does not hold.", r.ok ? "verdict holds" : "verdict broken"));
    out.push(element("p", r.head.seq
      ? `${many(r.checked, "sealed row")} compared, links ${r.from_seq.toLocaleString("en")} to ${r.head.seq.toLocaleString("en")}.`
      : "Nothing was sealed yet."));
    if (r.from_seq > 1) out.push(element("p", "Older links went by retention, and left a checkpoint.", "hint"));
    out.push(element("p", r.unsealed
      ? `${many(r.unsealed, "row")} ended and ${r.unsealed === 1 ? "waits" : "wait"} to be sealed, the oldest for ${r.unsealed_seconds.toFixed(1)} s. That is usual for about two seconds; longer, look whether the gateway runs.`
      : "No row waits to be sealed.", "hint"));
    if (kept && r.ok) out.push(element("p", `The head that you kept, of link ${kept.seq}, is still in the chain: nothing up to it was removed.`));
    if (r.note) out.push(element("p", spell(r.note), "warn"));
    if (r.faults.length) {
      const list = element("ol", "", "faults");
      list.append(...r.faults.map(fault));
      out.push(list);
      if (r.more_faults) out.push(element("p", "There are more; these are the first.", "hint"));
      out.push(element("p", "Keep a copy of the database as it is now, and find out who could write to it. What was exported before is still good to compare with.", "warn"));
    }
    box.replaceChildren(...out);
    box.scrollIntoView({ block: "nearest" });
  }

  presses.verify = async () => report(await call("POST", "/api/v1/audit/verify"));

  forms.kept = async ({ head }) => {
    let kept;
    try { kept = JSON.parse(head); } catch { throw Object.assign(new Error("That is no head: paste the whole line, from { to }."), { field: "/head" }); }
    report(await call("POST", "/api/v1/audit/verify", { head: kept }), kept);
    return nothing;
  };
})();
