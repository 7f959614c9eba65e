/** Address at which a sign-in with an identity provider begins. `to` is a path of this application. */
export function providerHref(provider: string, to: string): string {
  return `/login/${encodeURIComponent(provider)}?return_to=${encodeURIComponent(`/ui${to}`)}`;
}

const FAILURES: Readonly<Record<string, string>> = {
  no_role:
    "You have no role here. Ask an administrator of Tracewarden to map one of your groups to a role, then sign in again.",
  disabled: "Your account here is disabled. Ask an administrator of Tracewarden.",
  name_taken:
    "An account with your user name already exists here and is not yours. Ask an administrator of Tracewarden.",
  name_invalid:
    "The identity provider gives no user name that can be used here. Ask an administrator of Tracewarden.",
  provider: "The identity provider did not sign you in. Try again, or ask its administrators.",
  sign_in_expired:
    "This sign-in took longer than ten minutes, was completed before, or began in another browser. Begin again.",
  identity_provider:
    "The identity provider cannot be reached, or sent an answer that cannot be accepted. Try again; if it fails again, give the request id to an administrator.",
  overloaded: "Too many sign-ins are in progress. Try again in a moment.",
  unavailable: "The application database cannot be reached at the moment. Try again shortly.",
};

/** What a failed sign-in means for the person. */
export function failureText(reason: string): string {
  return (
    FAILURES[reason] ??
    "The sign-in failed. Try again; if it fails again, give the request id to an administrator."
  );
}
