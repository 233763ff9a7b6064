"use strict";
// Environment variables that agents request.
(() => {
  const { call, remember, forms, presses } = sallyport;
  const path = (form, verb) => `/api/v1/env-requests/${encodeURIComponent(form.dataset.env)}/${verb}`;

  // Field names have the prefix v., so that a name chosen by an agent cannot shadow a
  // property of the form.
  forms.env = async (fields, form) => {
    const { keep, ...given } = fields, values = Object.fromEntries(Object.entries(given).map(([name, value]) => [name.slice(2), value.replace(/\r\n/g, "\n")]));
    try {
      await call("POST", path(form, "answer"), keep ? { values, keep: true } : { values });
    } catch (e) {
      e.field = (e.field || "").replace(/^\/values\//, "/v.");
      throw e;
    }
    form.reset();
    remember("Sent. The agent can retrieve the values once.");
    return true;
  };

  forms.envRefused = async (fields, form) => {
    await call("POST", path(form, "refuse"), fields);
    remember("Refused");
    return true;
  };

  presses.suggested = (button) => {
    const field = document.getElementById(button.dataset.of);
    field.value = button.dataset.value;
    field.focus();
  };

  // A password field holds a single line, but keys such as PEM have several.
  presses.severalLines = (button) => {
    const field = document.getElementById(button.dataset.of), area = document.createElement("textarea");
    for (const name of ["id", "name", "required", "maxlength", "spellcheck"]) if (field.hasAttribute(name)) area.setAttribute(name, field.getAttribute(name));
    area.rows = 6;
    area.autocomplete = "off";
    area.value = field.value;
    field.replaceWith(area);
    button.remove();
    area.focus();
  };
})();
