import { useQuery } from "@tanstack/react-query";
import type { Api } from "../api/client";
import { meQuery } from "../api/queries";

/** Who is logged in; for pages below the layout, where somebody is. */
export function useMe(): Api["Me"] {
  const { data } = useQuery(meQuery);
  if (data === undefined || data === null) {
    // Only between the end of a session and the way to the log-in.
    return NOBODY;
  }
  return data;
}

const NOBODY: Api["Me"] = {
  id: "",
  username: "",
  roles: [],
  attributes: {},
  is_admin: false,
  must_change_password: false,
  preview: null,
  auth: "session",
};
