import { queryOptions } from "@tanstack/react-query";
import { api, ask } from "../../api/client";

export const mySessionsQuery = queryOptions({
  queryKey: ["my-sessions"],
  queryFn: ({ signal }) => ask(api.GET("/me/sessions", { signal })),
});

export const myKeysQuery = queryOptions({
  queryKey: ["my-api-keys"],
  queryFn: ({ signal }) => ask(api.GET("/me/api-keys", { signal })),
});
