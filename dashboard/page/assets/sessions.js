"use strict";
// Agent sessions.
(() => {
  const { $, call, showOutput, reloadPart, forms } = sallyport;

  forms.session = async (v, form) => {
    const chosen = [...form.elements.connections.selectedOptions].map((o) => o.value);
    delete v.connections;
    if (v.automation) delete v.kind; // it implies one
    if (chosen.length) v.connections = chosen.includes("all") ? ["all"] : chosen;
    const s = await call("POST", "/api/v1/sessions", v);
    const box = $("#session-once");
    showOutput(box, "env", "export SALLYPORT_TOKEN=" + s.token);
    showOutput(box, "group", s.group ? `In the group ${s.group}, whose access limits it.` : "");
    showOutput(box, "left", s.left_out.map((l) => "Not connected to " + l.name + ": " + l.reason).join(" "));
    await reloadPart("session-list");
    box.focus();
    return false;
  };

  forms.rename = async (v, form) => {
    await call("PATCH", "/api/v1/sessions/" + form.dataset.id, { title: v.title });
    return true;
  };
})();
