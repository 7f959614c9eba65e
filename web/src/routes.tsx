import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { meQuery, queryClient } from "./api/queries";
import { NotFound, PageError, RootNotFound } from "./app/ErrorPages";
import { Layout } from "./app/Layout";
import { omitUndefined, textParam } from "./lib/urlParams";
import { parseAuditUrl } from "./pages/audit/url";
import { parseRolesUrl } from "./pages/roles/url";
import { parseSearchUrl } from "./pages/search/url";
import { parseSetupUrl, parseSourceUrl } from "./pages/source/url";
import { parseTraceUrl } from "./pages/trace/url";
import { parseUsersUrl } from "./pages/users/url";

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: RootNotFound,
  errorComponent: PageError,
});

interface LoginSearch {
  to?: string;
  failed?: string;
  request?: string;
  /** The identity provider of the user who has just signed out. */
  signed_out?: string;
}

const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  // Page to return to after the sign-in: only paths of this application, never another site.
  validateSearch: (search: Record<string, unknown>): LoginSearch => {
    const to = textParam(search.to);
    const isPath = to?.startsWith("/") === true && !to.startsWith("//");
    // The service adds the others after a failed sign-in with an identity provider.
    const failed = textParam(search.failed);
    const request = textParam(search.request);
    const signed_out = textParam(search.signed_out);
    return { ...omitUndefined({ failed, request, signed_out }), ...(isPath ? { to } : {}) };
  },
  component: lazyRouteComponent(() => import("./pages/login/LoginPage"), "LoginPage"),
});

/** All pages for signed-in users. */
const app = createRoute({
  getParentRoute: () => root,
  id: "app",
  component: Layout,
  errorComponent: PageError,
  beforeLoad: async ({ location }) => {
    const me = await queryClient.ensureQueryData(meQuery);
    if (me === null) {
      throw redirect({
        to: "/login",
        search: location.href === "/" ? {} : { to: location.href },
        replace: true,
      });
    }
    if (me.must_change_password && location.pathname !== "/password") {
      throw redirect({ to: "/password", search: { to: location.href }, replace: true });
    }
    return { me };
  },
});

const index = createRoute({
  getParentRoute: () => app,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/search", replace: true });
  },
});

const password = createRoute({
  getParentRoute: () => app,
  path: "/password",
  validateSearch: login.options.validateSearch,
  component: lazyRouteComponent(() => import("./pages/login/PasswordPage"), "PasswordPage"),
});

const search = createRoute({
  getParentRoute: () => app,
  path: "/search",
  validateSearch: parseSearchUrl,
  component: lazyRouteComponent(() => import("./pages/search/SearchPage"), "SearchPage"),
});

const trace = createRoute({
  getParentRoute: () => app,
  path: "/trace/$traceId",
  validateSearch: parseTraceUrl,
  component: lazyRouteComponent(() => import("./pages/trace/TracePage"), "TracePage"),
});

const source = createRoute({
  getParentRoute: () => app,
  path: "/source",
  validateSearch: parseSourceUrl,
  component: lazyRouteComponent(() => import("./pages/source/SourcePage"), "SourcePage"),
});

const setup = createRoute({
  getParentRoute: () => app,
  path: "/source/setup",
  validateSearch: parseSetupUrl,
  component: lazyRouteComponent(() => import("./pages/source/SetupPage"), "SetupPage"),
});

const roles = createRoute({
  getParentRoute: () => app,
  path: "/roles",
  validateSearch: parseRolesUrl,
  component: lazyRouteComponent(() => import("./pages/roles/RolesPage"), "RolesPage"),
});

const role = createRoute({
  getParentRoute: () => app,
  path: "/roles/$name",
  component: lazyRouteComponent(() => import("./pages/roles/RolePage"), "RolePage"),
});

const identity = createRoute({
  getParentRoute: () => app,
  path: "/identity",
  component: lazyRouteComponent(() => import("./pages/identity/IdentityPage"), "IdentityPage"),
});

const newRole = createRoute({
  getParentRoute: () => app,
  path: "/new-role",
  component: lazyRouteComponent(() => import("./pages/roles/RolePage"), "NewRolePage"),
});

const users = createRoute({
  getParentRoute: () => app,
  path: "/users",
  validateSearch: parseUsersUrl,
  component: lazyRouteComponent(() => import("./pages/users/UsersPage"), "UsersPage"),
});

const user = createRoute({
  getParentRoute: () => app,
  path: "/users/$username",
  component: lazyRouteComponent(() => import("./pages/users/UserPage"), "UserPage"),
});

const history = createRoute({
  getParentRoute: () => app,
  path: "/history",
  component: lazyRouteComponent(() => import("./pages/history/HistoryPage"), "HistoryPage"),
});

const version = createRoute({
  getParentRoute: () => app,
  path: "/history/$version",
  component: lazyRouteComponent(() => import("./pages/history/VersionPage"), "VersionPage"),
});

const importModel = createRoute({
  getParentRoute: () => app,
  path: "/history/apply",
  component: lazyRouteComponent(() => import("./pages/history/ImportPage"), "ImportPage"),
});

const audit = createRoute({
  getParentRoute: () => app,
  path: "/audit",
  validateSearch: parseAuditUrl,
  component: lazyRouteComponent(() => import("./pages/audit/AuditPage"), "AuditPage"),
});

const account = createRoute({
  getParentRoute: () => app,
  path: "/account",
  component: lazyRouteComponent(() => import("./pages/account/AccountPage"), "AccountPage"),
});

const pages = [
  index,
  password,
  search,
  trace,
  source,
  setup,
  roles,
  role,
  newRole,
  identity,
  users,
  user,
  history,
  version,
  importModel,
  audit,
  account,
];

export const router = createRouter({
  routeTree: root.addChildren([login, app.addChildren(pages)]),
  basepath: "/ui",
  defaultPreload: "intent",
  scrollRestoration: true,
  defaultNotFoundComponent: NotFound,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
