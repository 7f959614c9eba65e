/** Message to a new user, without the password. */
export function welcomeText(url: string, username: string): string {
  return [
    `You have an account for our traces: ${url}`,
    `User name: ${username}`,
    "You get a first password separately, and choose your own when you sign in.",
  ].join("\n");
}
