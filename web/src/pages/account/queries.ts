import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";

export const mySessionsQuery = queryOptions({
  queryKey: ["my-sessions"],
  queryFn: ({ signal }) => unwrap(api.GET("/me/sessions", { signal })),
});

export const myKeysQuery = queryOptions({
  queryKey: ["my-api-keys"],
  queryFn: ({ signal }) => unwrap(api.GET("/me/api-keys", { signal })),
});
