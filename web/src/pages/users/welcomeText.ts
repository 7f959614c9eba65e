/** Message to a new user, without the password. */
export function handOverText(address: string, username: string): string {
  return [
    `You have an account for our traces: ${address}`,
    `User name: ${username}`,
    "You get a first password separately, and choose your own when you sign in.",
  ].join("\n");
}
