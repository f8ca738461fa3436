// Keeps the files of the site, so that it works offline. The program's own page does not use it.

/** The version of the site, which the page names when it registers this worker. */
const KEPT = `onedraw-${new URL(self.location.href).searchParams.get("version")}`;

self.addEventListener("install", (event) => event.waitUntil(keepAll()));
self.addEventListener("activate", (event) => event.waitUntil(forgetOthers()));
self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(answer(event.request));
});

async function keepAll() {
  const list = await fetch("site.json");
  const cache = await caches.open(KEPT);
  await cache.put("site.json", list.clone());
  await cache.addAll((await list.json()).files);
  await self.skipWaiting();
}

async function forgetOthers() {
  for (const name of await caches.keys()) if (name !== KEPT) await caches.delete(name);
  await self.clients.claim();
}

/** The list of files tells of a new version, so it is asked for where there is a network. */
async function answer(request) {
  const isList = new URL(request.url).pathname.endsWith("/site.json");
  if (isList) return fetch(request).catch(() => kept(request));
  return (await kept(request)) ?? fetch(request);
}

async function kept(request) {
  return (await caches.open(KEPT)).match(request, { ignoreSearch: true });
}
