const BROWSER_PATTERNS: [RegExp, string][] = [
  [/Edg(?:e|A|iOS)?\/(\d+)/, "Edge"],
  [/OPR\/(\d+)/, "Opera"],
  [/(?:Firefox|FxiOS)\/(\d+)/, "Firefox"],
  [/(?:HeadlessChrome|Chrome|CriOS)\/(\d+)/, "Chrome"],
  [/Version\/(\d+)[\d.]* (?:Mobile\/\S+ )?Safari/, "Safari"],
];

const SYSTEM_PATTERNS: [RegExp, string][] = [
  [/iPhone|iPad/, "iOS"],
  [/Android/, "Android"],
  [/Windows/, "Windows"],
  [/Mac OS X|Macintosh/, "macOS"],
  [/CrOS/, "ChromeOS"],
  [/Linux/, "Linux"],
];

/** Name of the browser of a user agent, or the user agent itself if it is unknown. */
export function agentName(userAgent: string): string {
  const system = SYSTEM_PATTERNS.find(([pattern]) => pattern.test(userAgent))?.[1];
  for (const [pattern, name] of BROWSER_PATTERNS) {
    const version = pattern.exec(userAgent)?.[1];
    if (version !== undefined) {
      return `${name} ${version}${system === undefined ? "" : ` on ${system}`}`;
    }
  }
  return userAgent;
}
