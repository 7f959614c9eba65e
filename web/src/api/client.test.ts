import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { api, connectSession, type SessionEnd, unwrap } from "./client";

const problem = (status: number, code: string) =>
  new Response(JSON.stringify({ code, title: code, detail: "" }), {
    status,
    headers: { "content-type": "application/problem+json" },
  });
const success = () =>
  new Response(JSON.stringify({ id: "a" }), { headers: { "content-type": "application/json" } });

describe("a request", () => {
  const fetch = vi.fn<(request: Request) => Promise<Response>>();
  const ends: SessionEnd[] = [];
  let isResumed = true;
  let [userId, resumes] = ["a", 0];

  beforeEach(() => {
    vi.stubGlobal("fetch", fetch);
    fetch.mockReset();
    ends.length = 0;
    isResumed = true;
    [userId, resumes] = ["a", 0];
    connectSession({
      userId: () => userId,
      resumes: () => resumes,
      resumed: (end) => {
        ends.push(end);
        return Promise.resolve(isResumed);
      },
    });
  });
  afterEach(() => {
    connectSession({ userId: () => undefined, resumes: () => 0, resumed: () => Promise.resolve(false) });
    vi.unstubAllGlobals();
  });

  it("names the user whose page this is", async () => {
    fetch.mockResolvedValue(success());
    await unwrap(api.GET("/me"));
    expect(fetch.mock.calls[0]?.[0].headers.get("Tracewarden-User")).toBe("a");
  });

  it("is sent again, whole, after the user signed in again", async () => {
    const bodies: string[] = [];
    fetch.mockImplementation(async (request) => {
      bodies.push(await request.text());
      return [problem(401, "unauthenticated"), problem(412, "user_mismatch"), success()][
        bodies.length - 1
      ] as Response;
    });
    await unwrap(api.POST("/users", { body: { username: "new" } }));
    expect(bodies).toEqual(Array(3).fill('{"username":"new"}'));
    expect(ends).toEqual(["ended", "other-user"]);
  });

  it("fails if the user signs out instead", async () => {
    isResumed = false;
    fetch.mockResolvedValue(problem(401, "unauthenticated"));
    await expect(unwrap(api.GET("/roles"))).rejects.toMatchObject({ status: 401, code: "unauthenticated" });
    expect(fetch).toHaveBeenCalledTimes(1);
  });

  it("that was sent before the user signed in again is repeated without asking", async () => {
    fetch.mockImplementationOnce(async () => {
      resumes += 1;
      return problem(401, "unauthenticated");
    });
    fetch.mockResolvedValue(success());
    await unwrap(api.GET("/me"));
    expect(ends).toEqual([]);
    expect(fetch).toHaveBeenCalledTimes(2);
  });

  it.each(["before", "while"])(
    "of a user is not repeated as another who signed in %s it waits",
    async (when) => {
      fetch.mockImplementation(async () => {
        userId = when === "before" ? "b" : "a";
        return problem(401, "unauthenticated");
      });
      connectSession({
        userId: () => userId,
        resumes: () => 0,
        resumed: () => {
          userId = "b";
          return Promise.resolve(true);
        },
      });
      await expect(unwrap(api.GET("/roles"))).rejects.toMatchObject({ status: 401 });
      expect(fetch).toHaveBeenCalledTimes(1);
    },
  );

  it.each([
    [401, "invalid_credentials"],
    [412, "precondition_failed"],
    [403, "forbidden"],
  ])("with the answer %i %s does not end the session", async (status, code) => {
    fetch.mockResolvedValue(problem(status, code));
    await expect(unwrap(api.GET("/roles"))).rejects.toMatchObject({ status, code });
    expect(ends).toEqual([]);
  });

  it("to sign out does not wait for a session", async () => {
    fetch.mockResolvedValue(problem(401, "unauthenticated"));
    await expect(unwrap(api.POST("/logout"))).rejects.toMatchObject({ status: 401 });
    expect(ends).toEqual([]);
  });
});
