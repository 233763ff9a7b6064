"use strict";
// Verifies the audit log, also against a stored head.
(() => {
  const { $, call, forms, presses, nothing, escapeInvisible } = sallyport;

  function element(tag, text, kind) {
    const e = document.createElement(tag);
    e.textContent = text;
    if (kind) e.className = kind;
    return e;
  }

  const kinds = {
    altered: "A row was modified after it was sealed", removed: "A sealed row is missing", unchained: "A completed row was never sealed",
    link: "An entry does not match the previous one", head: "The head does not match the chain", checkpoint: "A checkpoint does not match", cut_off: "The most recent entries were removed",
  };
  const many = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

  function fault(f) {
    const li = element("li", "");
    li.append(element("b", kinds[f.kind] || f.kind), element("p", escapeInvisible(f.message)));
    const at = [f.seq && "entry " + f.seq, f.row && escapeInvisible(f.row)].filter(Boolean).join(", ");
    if (at) li.append(element("small", "At " + at + "."));
    return li;
  }

  // report shows the result of a verification.
  function report(r, kept) {
    const box = $("#report"), out = [];
    out.push(element("p", r.ok ? "Verification passed" : "Verification failed", r.ok ? "verdict holds" : "verdict broken"));
    out.push(element("p", r.head.seq
      ? `${many(r.checked, "sealed row")} compared, entries ${r.from_seq.toLocaleString("en")} to ${r.head.seq.toLocaleString("en")}.`
      : "Nothing sealed yet."));
    if (r.from_seq > 1) out.push(element("p", "Older entries were deleted by the retention policy and are covered by a checkpoint.", "hint"));
    out.push(element("p", r.unsealed
      ? `${many(r.unsealed, "completed row")} not sealed yet, the oldest for ${r.unsealed_seconds.toFixed(1)} s. Sealing usually takes about two seconds. If it takes longer, check that the gateway is running.`
      : "All completed rows are sealed.", "hint"));
    if (kept && r.ok) out.push(element("p", `The stored head (entry ${kept.seq}) is part of the chain. No entries up to it were removed.`));
    if (r.note) out.push(element("p", escapeInvisible(r.note), "warn"));
    if (r.faults.length) {
      const list = element("ol", "", "faults");
      list.append(...r.faults.map(fault));
      out.push(list);
      if (r.more_faults) out.push(element("p", "Only the first faults are shown.", "hint"));
      out.push(element("p", "Keep a copy of the database and find out who had write access to it. Compare it with earlier exports.", "warn"));
    }
    box.replaceChildren(...out);
    box.scrollIntoView({ block: "nearest" });
  }

  presses.verify = async () => report(await call("POST", "/api/v1/audit/verify"));

  forms.kept = async ({ head }) => {
    let kept;
    try { kept = JSON.parse(head); } catch { throw Object.assign(new Error("This is not a valid head. Paste the whole line, from { to }."), { field: "/head" }); }
    report(await call("POST", "/api/v1/audit/verify", { head: kept }), kept);
    return nothing;
  };
})();
