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

/** What people call the program that this is the user agent of; the text itself when it is of none known. */
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
