"use strict";
// Notification channels of an organization.
(() => {
  const { $, call, showOutput, forms, presses, ask, nothing } = sallyport;
  const PATH = "/api/v1/notify/";

  const shown = (secret) => {
    showOutput($("#secret-once"), "secret", secret);
    $("#secret-once").focus();
  };

  // Reload the page only if there is no secret to show.
  forms.webhook = async ({ url, wants, enabled }) => {
    const c = await call("PUT", PATH + "webhook", { url, wants, enabled: enabled === "on" });
    if (!c.secret) return true;
    await sallyport.reloadPart("webhook-channel");
    shown(c.secret);
    return nothing;
  };

  forms.slack = async ({ enabled, ...v }) => { await call("PUT", PATH + "slack", { ...v, enabled: enabled === "on" }); return true; };

  presses.testNotify = async (button) => {
    const box = $("#test-" + button.dataset.kind);
    box.textContent = "Sending…";
    try {
      const a = await call("POST", `${PATH}${button.dataset.kind}/test`);
      box.textContent = (a.ok ? "Test sent. " : "Test failed. ") + a.detail;
    } catch (e) { box.textContent = e.message; }
  };

  presses.rotateNotify = async () => {
    if (!(await ask("Rotate the signing secret?", "Requests are signed with both secrets for one day, then only with the new one.", "Rotate secret"))) return;
    shown((await call("POST", PATH + "webhook/rotate", { keep: "24h" })).secret);
  };
})();
