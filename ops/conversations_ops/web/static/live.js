// Keeps a page live: fetches it again every two seconds, and replaces its main part if it has changed.
"use strict";
(() => {
  const EVERY = 2000;
  let last = null;

  // A person who types, or who has opened or marked something, must not lose it.
  const busy = () => {
    const at = document.activeElement;
    if (at && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) return true;
    if (String(document.getSelection())) return true;
    return [...document.querySelectorAll("main input, main textarea, main select")].some((it) =>
      it.type === "checkbox" ? it.checked !== it.defaultChecked : it.value !== (it.defaultValue ?? it.value));
  };

  const opened = () => [...document.querySelectorAll("details[open][id]")].map((it) => it.id);

  const look = async () => {
    if (document.hidden || busy()) return;
    const answer = await fetch(location.href, { headers: { "x-live": "1" }, redirect: "error" });
    if (answer.status === 401) { location.reload(); return; }
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    const old = document.querySelector("main");
    if (!next || !old || busy()) return;
    const said = next.innerHTML;
    if (said === last) return;
    const kept = opened(), focus = document.activeElement && document.activeElement.id;
    if (last !== null || said !== old.innerHTML) old.innerHTML = said;
    last = said;
    kept.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  };

  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button) setTimeout(() => { button.disabled = true; button.textContent = "…"; }, 0);
  });

  const again = async () => {
    try { await look(); } catch { /* the next look may succeed */ }
    setTimeout(again, EVERY);
  };
  if (document.body.dataset.live === "yes") setTimeout(again, EVERY);
})();
