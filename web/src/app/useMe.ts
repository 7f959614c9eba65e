import { useQuery } from "@tanstack/react-query";
import type { Api } from "../api/client";
import { meQuery } from "../api/queries";

/** The signed-in user, for pages below the layout, which require one. */
export function useMe(): Api["Me"] {
  const { data } = useQuery(meQuery);
  if (data === undefined || data === null) {
    // Only between the end of the session and the redirect to the sign-in page.
    return SIGNED_OUT;
  }
  return data;
}

const SIGNED_OUT: Api["Me"] = {
  id: "",
  username: "",
  roles: [],
  attributes: {},
  is_admin: false,
  must_change_password: false,
  preview: null,
  auth: "session",
};
