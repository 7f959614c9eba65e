const BROWSERS: [RegExp, string][] = [
  [/Edg(?:e|A|iOS)?\/(\d+)/, "Edge"],
  [/OPR\/(\d+)/, "Opera"],
  [/(?:Firefox|FxiOS)\/(\d+)/, "Firefox"],
  [/(?:HeadlessChrome|Chrome|CriOS)\/(\d+)/, "Chrome"],
  [/Version\/(\d+)[\d.]* (?:Mobile\/\S+ )?Safari/, "Safari"],
];

const SYSTEMS: [RegExp, string][] = [
  [/iPhone|iPad/, "iOS"],
  [/Android/, "Android"],
  [/Windows/, "Windows"],
  [/Mac OS X|Macintosh/, "macOS"],
  [/CrOS/, "ChromeOS"],
  [/Linux/, "Linux"],
];

/** Name of the browser of a user agent, or the user agent itself if it is unknown. */
export function agentName(userAgent: string): string {
  const system = SYSTEMS.find(([form]) => form.test(userAgent))?.[1];
  for (const [form, name] of BROWSERS) {
    const version = form.exec(userAgent)?.[1];
    if (version !== undefined) {
      return `${name} ${version}${system === undefined ? "" : ` on ${system}`}`;
    }
  }
  return userAgent;
}
