// Keeps the files of the site, so that it works offline. The program's own page does not use it.
//
// All files of a version lie in a folder of its name, so that files of two versions never stand side by side: the first
// page says which version it is of. It is asked for where there is a network, and everything else is kept for ever.

/** The version of the site, which the page names when it registers this worker. */
const VERSION = new URL(self.location.href).searchParams.get("version");
const KEPT = `onedraw-${VERSION}`;
const FIRST = ["./", "index.html"];

self.addEventListener("install", (event) => event.waitUntil(keepAll()));
self.addEventListener("activate", (event) => event.waitUntil(forgetOthers()));
self.addEventListener("fetch", (event) => {
  const { method, mode } = event.request;
  if (method !== "GET") return;
  if (mode === "navigate") {
    event.waitUntil(leaveWithSite());
    event.respondWith(fetch(event.request, { cache: "no-cache" }).catch(() => offline(event.request)));
  } else {
    event.respondWith(answer(event.request));
  }
});

async function keepAll() {
  const { files } = await (await got(new Request(`${VERSION}/site.json`, { cache: "no-store" }))).json();
  const cache = await caches.open(KEPT);
  for (const file of FIRST) await cache.put(file, await got(new Request(file, { cache: "reload" })));
  // The names of these change with what is in them.
  for (const file of files) await cache.put(file, (await caches.match(file)) ?? (await got(new Request(file))));
}

async function got(request) {
  const response = await fetch(request);
  if (!response.ok) throw new Error(`${request.url}: ${response.status}`);
  return response;
}

async function forgetOthers() {
  for (const name of await caches.keys()) if (name.startsWith("onedraw-") && name !== KEPT) await caches.delete(name);
  await self.clients.claim();
}

async function answer(request) {
  return (await kept(request)) ?? fetch(request);
}

async function offline(request) {
  return (await kept(request)) ?? Response.error();
}

/** What is kept. Where the browser refuses its storage, nothing is. */
async function kept(request) {
  try {
    return await (await caches.open(KEPT)).match(request, { ignoreSearch: true });
  } catch {
    return undefined;
  }
}

/** Where the site is no longer, its worker goes, too. Without a network nobody knows. */
async function leaveWithSite() {
  const list = await fetch("site.json", { cache: "no-store" }).catch(() => null);
  if (list !== null && !list.ok) await self.registration.unregister();
}
