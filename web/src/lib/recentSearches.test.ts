import { beforeEach, expect, it } from "vitest";
import { clearRecentSearches, keepSearchesOf, recentSearches, rememberSearch } from "./recentSearches";

beforeEach(() => {
  const items = new Map<string, string>();
  Object.defineProperty(globalThis, "localStorage", {
    configurable: true,
    value: {
      getItem: (key: string) => items.get(key) ?? null,
      setItem: (key: string, value: string) => items.set(key, value),
      removeItem: (key: string) => items.delete(key),
    },
  });
});

it("keeps the newest searches, each once", () => {
  for (let index = 0; index < 12; index += 1) {
    rememberSearch("ada", `a = ${index}`);
  }
  rememberSearch("ada", "a = 9");
  rememberSearch("ada", "x".repeat(2_001));
  expect(recentSearches("ada")).toEqual([9, 11, 10, 8, 7, 6, 5, 4].map((index) => `a = ${index}`));
});

it("never shows those of another user", () => {
  rememberSearch("ada", "tenant = acme");
  expect(recentSearches("bob")).toEqual([]);
  rememberSearch("bob", "b = 1");
  expect(recentSearches("bob")).toEqual(["b = 1"]);
  expect(recentSearches("ada")).toEqual([]);
  clearRecentSearches();
  expect(recentSearches("bob")).toEqual([]);
});

it("are removed when another user is known to use this browser", () => {
  rememberSearch("ada", "tenant = acme");
  keepSearchesOf("ada");
  expect(recentSearches("ada")).toEqual(["tenant = acme"]);
  keepSearchesOf("bob");
  expect(localStorage.getItem("tracewarden-recent-searches")).toBeNull();
});

it("are not stored after another window has removed them, until the user of this one is known again", () => {
  const key = "tracewarden-recent-searches";
  rememberSearch("ada", "a = 1");
  clearRecentSearches();
  globalThis.dispatchEvent(new StorageEvent("storage", { key, newValue: null }));
  rememberSearch("ada", "a = 2");
  expect(recentSearches("ada")).toEqual([]);
  keepSearchesOf("ada");
  rememberSearch("ada", "a = 3");
  expect(recentSearches("ada")).toEqual(["a = 3"]);
});

it("works without storage, and with invalid stored content", () => {
  localStorage.setItem("tracewarden-recent-searches", '{"user":"ada","searches":[1]}');
  expect(recentSearches("ada")).toEqual([]);
  localStorage.setItem("tracewarden-recent-searches", "no JSON");
  expect(recentSearches("ada")).toEqual([]);
  Object.defineProperty(globalThis, "localStorage", {
    configurable: true,
    get: () => {
      throw new Error("denied");
    },
  });
  rememberSearch("ada", "a = 1");
  clearRecentSearches();
  expect(recentSearches("ada")).toEqual([]);
});
