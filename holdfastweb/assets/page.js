// The page is whole without this: it keeps times running, and brings in what is new.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const body = document.body, live = $("live"), rows = $("rows"), head = $("head"), whole = $("body");

  // How much this machine's clock is ahead of the one that the times are of.
  let ahead = Date.now() - Number(body.dataset.now);

  // As "short" in text.go.
  const short = (s) => {
    s = Math.max(Math.round(s), 0);
    const two = (n) => String(n).padStart(2, "0");
    if (s < 120) return s + "s";
    if (s < 7200) return Math.floor(s / 60) + "m " + two(s % 60) + "s";
    if (s < 172800) return Math.floor(s / 3600) + "h " + two(Math.floor(s / 60) % 60) + "m";
    return Math.floor(s / 86400) + "d " + (Math.floor(s / 3600) % 24) + "h";
  };
  const count = () => {
    const now = (Date.now() - ahead) / 1000;
    for (const t of document.querySelectorAll("time")) {
      const text = short(t.dataset.since ? now - t.dataset.since : t.dataset.until - now);
      if (t.textContent !== text) t.textContent = text;
    }
  };

  // The server has escaped what is in the fragments.
  const made = (html) => {
    const t = document.createElement("template");
    t.innerHTML = html;
    return t.content;
  };
  // Whoever is at a link or a button stays there.
  const keepFocus = (change) => {
    const at = document.activeElement, href = at && at.getAttribute && at.getAttribute("href");
    change();
    if (at && !at.isConnected && href) {
      for (const a of document.querySelectorAll("a[href]")) {
        if (a.getAttribute("href") === href) { a.focus({ preventScroll: true }); break; }
      }
    }
  };
  const bringIn = (u) => {
    ahead = Date.now() - u.now;
    if (u.body !== undefined) whole.replaceChildren(made(u.body));
    if (u.head !== undefined) head.replaceChildren(made(u.head));
    for (const [id, html] of Object.entries(u.rows || {})) {
      const old = $(id), now = made(html);
      if (old) old.replaceWith(now); else rows.append(now);
    }
    if (u.empty) rows.replaceChildren();
    if (u.order) {
      const keep = new Set(u.order);
      for (const tr of [...rows.children]) if (!keep.has(tr.id)) tr.remove();
      let at = rows.firstElementChild;
      for (const id of u.order) {
        const tr = $(id);
        if (tr === at) at = at.nextElementSibling; else rows.insertBefore(tr, at);
      }
    }
    count();
  };

  const say = (state, text) => {
    live.className = "live " + state;
    if (live.textContent !== text) live.textContent = text;
  };
  let source, again, heard;
  // A stream that is open is not live: what is between may pass nothing on, or be gone without a word.
  const hear = () => { heard = Date.now(); say("on", "live"); };
  const listen = () => {
    clearTimeout(again);
    if (source) source.close();
    heard = Date.now();
    source = new EventSource(body.dataset.events);
    source.onmessage = (e) => { hear(); keepFocus(() => bringIn(JSON.parse(e.data))); };
    source.addEventListener("here", hear);
    source.onerror = () => {
      say("off", "not live; trying again");
      // A browser tries again by itself, unless it was refused.
      if (source.readyState === EventSource.CLOSED) again = setTimeout(listen, 15000);
    };
  };
  // Nobody looks at a page in the background, so that it costs nobody anything.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(again);
      source.close();
      say("off", "paused");
    } else {
      listen(); // and hears of all that is new, and of what is not
    }
  });
  window.addEventListener("pagehide", () => source && source.close());
  window.addEventListener("pageshow", (e) => { if (e.persisted) listen(); });

  // A choice in a form takes effect at once.
  for (const select of document.querySelectorAll("form.filter select")) {
    select.addEventListener("change", () => select.form.requestSubmit());
  }
  count();
  setInterval(() => {
    count();
    if (!document.hidden && source.readyState !== EventSource.CLOSED && Date.now() - heard > 15000) { // a word comes every other second
      say("off", "not live; trying again");
      listen();
    }
  }, 1000);
  listen();
})();
