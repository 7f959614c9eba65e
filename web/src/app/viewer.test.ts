import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Api } from "../api/client";
import { meQuery } from "../api/queries";
import { recentSearches, rememberSearch } from "../lib/recentSearches";
import { watchViewer } from "./viewer";

const alice: Api["Me"] = {
  id: "a",
  username: "alice",
  roles: [],
  attributes: {},
  is_admin: false,
  must_change_password: false,
  preview: null,
  auth: "session",
};
const bob: Api["Me"] = { ...alice, id: "b", username: "bob" };
const withRole: Api["Me"] = { ...alice, roles: ["support"] };
const withPreview: Api["Me"] = { ...alice, preview: { roles: ["support"], attributes: {} } };

describe("cached responses of a page", () => {
  let client: QueryClient;
  let stopWatching: () => void;
  const onUserChange = vi.fn();
  const trace = ["trace", "1"];

  beforeEach(() => {
    onUserChange.mockClear();
    client = new QueryClient();
    stopWatching = watchViewer(client, onUserChange);
    client.setQueryData(meQuery.queryKey, alice);
    client.setQueryData(trace, "alice's");
  });
  afterEach(() => stopWatching());

  it("stay while the same user is signed in", () => {
    client.setQueryData(meQuery.queryKey, withRole);
    expect(client.getQueryData(trace)).toBe("alice's");
    expect(onUserChange).not.toHaveBeenCalled();
  });

  it("are removed with the results of mutations when another user signs in", async () => {
    await client
      .getMutationCache()
      .build(client, { mutationFn: async () => "a token" })
      .execute(undefined);
    client.setQueryData(meQuery.queryKey, bob);
    expect(client.getQueryData(trace)).toBeUndefined();
    expect(client.getQueryData(meQuery.queryKey)).toEqual(bob);
    expect(client.getMutationCache().getAll()).toEqual([]);
    expect(onUserChange).toHaveBeenCalledOnce();
  });

  it("and recent searches are removed when another user signs in", () => {
    rememberSearch(alice.id, "tenant = acme");
    client.setQueryData(meQuery.queryKey, withRole);
    expect(recentSearches(alice.id)).toEqual(["tenant = acme"]);
    client.setQueryData(meQuery.queryKey, bob);
    expect(recentSearches(alice.id)).toEqual([]);
  });

  it("are removed when another user signs in after a sign-out", () => {
    client.setQueryData(meQuery.queryKey, null);
    client.setQueryData(meQuery.queryKey, bob);
    expect(client.getQueryData(trace)).toBeUndefined();
  });

  it("are removed when a preview starts or ends, and requested again where they are shown", async () => {
    const queryFn = vi.fn(async () => "of the preview");
    const stop = new QueryObserver(client, { queryKey: trace, queryFn, staleTime: 60_000 }).subscribe(
      () => {},
    );
    client.setQueryData(meQuery.queryKey, withPreview);
    await vi.waitFor(() => expect(client.getQueryData(trace)).toBe("of the preview"));
    client.setQueryData(meQuery.queryKey, alice);
    expect(client.getQueryData(trace)).toBeUndefined();
    await vi.waitFor(() => expect(queryFn).toHaveBeenCalledTimes(2));
    expect(onUserChange).not.toHaveBeenCalled();
    stop();
  });
});
