"use strict";
// Sign-in with a link.
(() => {
  const { $, KEY, ask } = sallyport;

  // next returns an absolute URL: a path that starts with // would name another host.
  function next() {
    const to = new URLSearchParams(location.search).get("next") || "/";
    const url = URL.parse(to, location.origin);
    return url?.origin === location.origin && !url.pathname.startsWith("//") ? url.href : location.origin;
  }

  async function signIn() {
    const say = (text) => { $("#login-state").textContent = text; };
    const [code, key] = location.hash.slice(1).split(".");
    const failed = $("#login > .error"); // what went wrong is read here, at an address that can be opened again
    history.replaceState(null, "", failed ? "/login" : location.pathname + location.search);
    if (failed && !code) return;
    // A link from another site arrives without the cookie, but this request sends it.
    const me = () => fetch("/api/v1/me", { credentials: "same-origin" });
    if (!code || !key) {
      if ((await me()).ok) location.replace(next());
      return;
    }
    // Without this check, a link sent by someone else could switch the account unnoticed.
    const res = localStorage.getItem(KEY) && await me(); // else nobody is signed in
    if (res && res.ok && !await ask("Switch account?", `You are signed in as ${(await res.json()).name}. Sign in with this link instead?`, "Sign in")) {
      location.replace(next());
      return;
    }
    say("Signing in…");
    const done = await fetch("/login", { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) });
    if (!done.ok) {
      const p = await done.json().catch(() => ({}));
      say(p.detail || "Sign-in failed. Open a new link.");
      if (p.detail) $("#login .hint").hidden = true; // it says the same
      return;
    }
    localStorage.setItem(KEY, key);
    location.replace(next());
  }

  signIn();
  addEventListener("hashchange", () => { if (location.hash) signIn(); }); // a link pasted into this very page
})();
