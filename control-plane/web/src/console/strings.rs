//! The texts of the console, in English.

use edgelink_http::texts;

texts! {
    pub(super),
    PRODUCT = "edgelink";
    TITLE_OF_ERROR = "<title>Error: ";
    SKIP = "Skip to content";
    NAVIGATION = "Main";
    KEYBOARD = "Keys of this page";
    KEYBOARD_HINT = "They work while you are not typing, if scripts are allowed.";
    LOG_IN = "Log in";
    LOG_OUT = "Log out";
    SIGNED_IN_AS = "Logged in as";

    OVERVIEW = "Overview";
    LINKS = "Links";
    CREATE = "New link";
    TAGS = "Tags";
    DOMAINS = "Domains";
    KEYS = "API keys";
    USERS = "Users";
    IMPORTS = "Imports";
    AUDIT = "Audit log";
    SETTINGS = "Settings";

    BY_PASSWORD = "By name and password";
    BY_KEY = "By API key";
    BY_PROVIDER = "By your organization";
    OIDC_DONE = "You are logged in";
    OIDC_GO_ON = "Go on";
    OIDC_FAILED = "Not logged in";
    OIDC_EXPIRED = "The login took too long, or did not begin in this browser. Begin it once more.";
    OIDC_CANCELLED = "You have cancelled the login, or your organization does not let you in.";
    OIDC_REFUSED = "Your organization's login has answered with an error, which is in the log of the server. Begin it once more.";
    OIDC_UNAVAILABLE = "Your organization's login does not answer at the moment. Try again in a few seconds, or log in by password or key.";
    OIDC_INVALID = "What your organization's login has answered cannot be trusted. Why is in the log of the server.";
    OIDC_UNKNOWN = "You are no user here yet. Ask an admin to make one of your name.";
    OIDC_NO_ROLE = "Your organization gives you none of the roles that may log in here. Ask an admin.";
    OIDC_NAME_TAKEN = "Somebody else is the user of your name here. Ask an admin.";
    OIDC_NOT_AWAITED = "There is a user of your name here. Ask an admin to await your login, if that is you.";
    OIDC_DISABLED = "Your user is disabled. Ask an admin.";
    LOG_IN_AGAIN = "To the login";
    HAS_IDENTITY = "Logs in by the organization";
    AWAITS_IDENTITY = "The next login of this name by the organization is this user";
    AWAITS_IDENTITY_HINT = "For an hour from now on. Make sure that the name is that person's there.";
    FORGET_IDENTITY = "Forget who logs in as this user at the organization";

    USER_NAME = "User name";
    PASSWORD = "Password";
    TENANT = "Tenant";
    TENANT_HINT = "Only if your installation has several; otherwise leave it empty.";
    API_KEY = "API key";
    WRONG_LOGIN = "That did not match. Check what you have entered.";
    TOO_MANY_TRIES = "There were too many tries. Wait a little, then try again.";
    FORM_EXPIRED = "the form is too old, or is not from this page: go back, load the page again and send it once more";
    FOREIGN_FORM = "the form comes from another site";
    NO_COOKIE = "your browser has sent no cookie: allow cookies of this site, and open it by HTTPS, for a browser keeps this cookie over plain HTTP only on its own machine";

    CLICKS = "Clicks";
    CLICKS_OF_DAYS = "Clicks of the last 30 days";
    DAY = "Day";
    TOP_LINKS = "Most followed links";
    LINK = "Link";
    NO_CLICKS = "No clicks yet. They are counted here a few seconds after visitors follow a link.";
    ACCOUNTS = "What became of clicks";
    ACCOUNTS_HINT = "Over all time, as edges report them.";
    SENT = "Sent by edges";
    COUNTED = "Counted";
    DROPPED = "Dropped at edges";
    UNDESCRIBED = "Counted without attributes";
    EDGES = "Edges in the last 24 hours";
    EDGE = "Edge";
    HEALTH = "How edges are doing";
    HEALTH_HINT = "What their workers have said in the last minute. Each says it every 10 seconds from its first request on, if the edge reports clicks.";
    NO_HEALTH = "No edge has said in the last 24 hours how it is doing.";
    SILENT = "silent";
    HEARD_AT = "Last heard of";
    WORKERS = "Workers";
    FEED_LAG = "Behind the feed";
    NO_FEED = "a worker reads no feed";
    HIT_SHARE = "Answered without a lookup";
    NO_LOOKUPS = "no requests";
    ADMITTING = "Workers with admission";
    REFUSED = "Refused by admission";
    NO_EDGES = "No edge has reported clicks in that time.";
    WAITING = "On their way";
    LOST = "Lost";
    COUNTRIES = "Countries";
    REFERRERS = "Referrers";
    FIRST_LINK = "Make the first link";

    SEARCH = "Search";
    SEARCH_HINT = "Words that begin the code, host, title or a tag.";
    FILTER = "Show";
    FILTERS = "Filters";
    CLEAR = "Show all";
    ALL_DOMAINS = "All domains";
    DEFAULT_DOMAIN = "Default domain";
    DOMAIN = "Domain";
    DOMAIN_HINT = "Leave it empty for the default domain.";
    TAG = "Tag";
    STATE = "State";
    ORDER = "Order";
    SELECT = "Select";
    TARGET = "Target";
    CREATED_AT = "Created";
    UPDATED_AT = "Changed";
    NO_LINKS = "There are no links yet.";
    NO_MATCH = "No link matches.";
    NO_MATCH_HERE = "No link of this page matches. The next page may have some.";
    NEXT_PAGE = "Next page";
    FIRST_PAGE = "First page";
    WITH_SELECTED = "With the selected links";
    ENABLE = "Enable";
    DISABLE = "Disable";
    ARCHIVE = "Archive";
    ADD_TAG = "Add tag";
    REMOVE_TAG = "Remove tag";
    DELETE = "Delete";
    NONE_SELECTED = "select at least one link";
    TOO_MANY_SELECTED = "select at most 100 links";
    ONE_TAG = "must be one tag, without a comma";
    ENTER_AGAIN = "enter it again: pages keep no passwords";
    STORED_NOW = "Somebody else has changed this meanwhile. Stored now:";
    OVERWRITE = "Overwrite it with what is in this form";
    IS_REQUIRED = "is required";
    UNKNOWN_ACTION = "is unknown";
    CHANGED_LINKS = "Changed links";
    DONE = "Done";
    OF = "of";
    UNDO = "Undo";
    BACK = "Back to the list";

    CREATED = "The link was created";
    CREATE_MANY = "Many links at once";
    LINES = "Targets";
    LINES_HINT = "One a line; after a space, an alias. A form holds about 64 kB; import more by the API.";
    RESULTS = "Results";
    TARGET_HINT = "Where the link goes, with http:// or https://.";
    SLUG = "Alias";
    SLUG_HINT = "Letters, digits, - and _. Leave it empty for a generated code.";
    TITLE = "Title";
    TAGS_HINT = "Separated by commas.";
    TAG_LINES_HINT = "One a line.";
    LIST_HINT = "Separated by commas; empty for all.";
    REDIRECT_STATUS = "Redirect";
    VALID_SINCE = "Valid from";
    VALID_UNTIL = "Valid until";
    UTC = "In UTC.";
    EXPIRED_URL = "Target once it is over";
    EXPIRED_URL_HINT = "Without it, visitors see that the link is gone.";
    MAX_VISITS = "Limit of visits";
    MAX_VISITS_HINT = "Leave it empty for no limit.";
    LINK_PASSWORD_HINT = "Visitors have to enter it. Leave it empty for none.";
    PASSWORD_IS_SET = "There is one. Leave it empty to keep it.";
    REMOVE_PASSWORD = "Remove the password";
    FORWARD_QUERY = "Pass the query on to the target";
    FORWARD_PATH = "Pass the rest of the path on to the target";
    CRAWLABLE = "Search engines may list it";
    TRACK_CONVERSIONS = "Give the target the id of each click";
    HIDE_REFERRER = "Keep from the target which page had the link";
    ARCHIVED = "Archived";
    EXTERNAL_ID = "External id";
    EXTERNAL_ID_HINT = "Its id in another system.";
    NOTES = "Notes";
    FIND_IF_EXISTS = "Take an equal link if there is one";
    CHECK_FIELDS = "Check these fields:";

    DETAILS = "Details";
    EDIT = "Edit";
    SAVE = "Save";
    RULES = "Rules";
    HISTORY = "History";
    MOVE = "Move";
    MOVE_HINT = "The link goes to another domain or alias, with its clicks and history.";
    KEEP_OLD = "Leave the link here as well, so that it still works where it was printed";
    SLUG_HINT_MOVE = "Letters, digits, - and _. It stays as it is unless you change it.";
    LIVE = "Clicks as they come";
    LIVE_HINT = "Each click is a line here while this page is open, if scripts are allowed.";
    QR_CODE = "QR code";
    VISITS_USED = "Visits used";
    HAS_PASSWORD_SHORT = "password";
    DELETED = "Deleted link";
    DELETED_TEXT = "This link was deleted. It can be restored with all it had, as long as its code is free and it is not purged.";
    RESTORE = "Undo the deletion";
    RULES_HINT = "A list in JSON; visitors go to the target of the first rule whose conditions hold.";
    NO_JSON = "is no JSON";
    DRY_RUN = "Dry run";
    DRY_RUN_HINT = "Where would this visitor go? Nothing is counted.";
    DRY_RUN_ASK = "Try";
    OUTCOME = "Outcome";
    MATCHED_RULE = "Matching rule";
    NO_RULE = "none";
    HOLDS = "holds";
    HOLDS_NOT = "does not hold";
    SAW = "saw";
    HAS_PASSWORD = "Has given the password";
    AT = "Time";

    NEW_NAME = "New name";
    RENAME = "Rename";
    RENAME_TAG = "Rename a tag";
    MERGE_TAGS = "Merge it with the tag that has that name";
    NOT_COMPLETE = "so many links have it that some are left: send the form again";
    DELETE_TAG = "Delete a tag";
    DELETE_TAG_FROM = "It is taken from all links that have it, for good. Links that have it:";
    CANCEL = "Leave it as it is";
    NO_TAGS = "No link has a tag.";
    PREFIX = "Beginning with";
    AT_LEAST = "at least";

    DOMAIN_NAME = "Name";
    DOMAIN_NAME_HINT = "A DNS name without port, such as go.example.com.";
    NEW_DOMAIN = "New domain";
    CONFIGURED = "configured";
    VERIFIED = "verified";
    NOT_VERIFIED = "not verified";
    VERIFY = "Verify now";
    DELETE_DOMAIN = "Delete a domain";
    DELETE_DOMAIN_TEXT = "Its settings are gone for good; to have it again it has to be verified again. A domain that has links is not deleted.";
    VERIFY_HINT = "Add this TXT record to the DNS of the domain, then verify it:";
    BRAND_NAME = "Name on its pages";
    BRAND_NAME_HINT = "Visitors see it on pages for people, such as that of an unknown link.";
    BRAND_LOGO = "Logo on its pages";
    BRAND_LOGO_HINT = "A URL with https://, or a picture as a data URL of at most 16 kB.";
    BRAND_COLOR = "Colour of its pages";
    BRAND_COLOR_HINT = "Such as #1a2b3c.";

    REPORTS = "Reports";
    REPORTS_HINT = "Links that visitors have reported as abuse. Disabling a link is undone on its page.";
    NO_REPORTS = "There are no such reports.";
    REASON = "Reason";
    REPORT_TEXT = "What the visitor says";
    ACTION_COLUMN = "What to do";
    DISABLE_LINK = "Disable the link";
    CLOSE_REPORT = "Close";
    REOPEN_REPORT = "Open again";
    CLOSED_BY_TENANT = "Closed by the tenant of the link";

    ROOT_URL = "Target of its root";
    NOT_FOUND_URL = "Target of unknown links";

    NAME = "Name";
    ROLE = "Role";
    USER_ID = "Id of its user";
    USER_ID_HINT = "Leave it empty for your own.";
    ONLY_DOMAINS = "Only on these domains";
    ONLY_TAGS = "Only with these tags";
    EXPIRES_AT = "Ends";
    QUOTA = "Links it may create";
    QUOTA_HINT = "Leave it empty for no limit.";
    NEW_KEY = "New API key";
    KEY_SHOWN_ONCE = "Copy it now: it is shown this once.";
    LAST_USED = "Last used";
    REVOKE = "Revoke";
    REVOKE_KEY = "Revoke an API key";
    REVOKE_TEXT = "What uses it is refused from then on, and logins with it end. It cannot be brought back.";
    ROLE_OF_KEY = "Role of the key";
    ROTATE = "New secret";
    ROTATE_HINT = "The key keeps its name, role and bounds, and gets another secret, which is shown once.";
    OLD_SECRET = "The old secret works";
    NEVER = "never";
    BOUND_TO = "Bound to";
    USED_OF_QUOTA = "Created";

    NEW_USER = "New user";
    USER_DISABLED = "Disabled: keys and password work no more";
    DISABLED = "disabled";
    PASSWORD_HINT = "8 to 255 bytes.";
    CAN_LOG_IN = "Password";
    YES = "yes";
    NO = "no";

    ID = "Id";
    WHEN = "When";
    ACTOR = "Key";
    ACTION = "What";
    SUBJECT = "About";
    SUBJECT_HINT = "Such as link:go.example/abc";
    DETAIL = "Change";
    NO_ENTRIES = "There are no entries.";

    IMPORTS_HINT = "Links of another system, or of an export. They are tried out first: nothing is created before you say so.";
    FORMAT = "Where they come from";
    RECOGNISED = "It is recognised";
    ENCODING = "Encoding";
    LOST_OF_FILE = "What is not kept of it";
    MAP_COLUMNS = "What its columns and domains are";
    MAP_AGAIN = "Try it out again";
    LEFT_OUT = "left out on purpose";
    NOT_UNDERSTOOD = "not understood";
    STAYS_DOMAIN = "stays as it is";
    FILE = "File";
    FILE_HINT = "An export of Shlink, YOURLS, Kutt, Bitly, Dub and others, or a table with named columns. What is read of each system is in the manual of the command edgelink import.";
    PASTED = "Or its text";
    PASTED_HINT = "Where there is no file: paste its lines.";
    NO_FILE = "choose a file, or paste its text";
    WITHOUT_HISTORY = "Leave out when links were made and how often they were visited, which only admins may set";
    TRY_IMPORT = "Try it out";
    RUN_IMPORT = "Import";
    STOP_IMPORT = "Stop";
    FORGET_IMPORT = "Forget this file";
    EARLIER_IMPORTS = "Files that you have sent";
    NO_IMPORT = "there is no such import of yours at this control plane: files are forgotten when it stops, or after others";
    TOO_MANY_IMPORTS = "as many imports go on as there may be: wait until one is done";
    NO_ROOM_FOR_IMPORTS = "the files of imports take up as much of the disk as they may (console.max_import_bytes): wait until one is done, or delete one of yours";
    NO_ROOM_FOR_REPORT = "The files of imports take up as much of the disk as they may (console.max_import_bytes), so that the report has no room. Wait until others are done, and go on.";
    IMPORT_FAILED = "The import failed. The log of the control plane says why.";
    TRIAL_STOPPED = "You have stopped it. Nothing was imported.";
    REPORT_TOO_LONG = "There is too much wrong with it. Is it of that format?";
    STOPPED_BY_HAND = "You have stopped it. What was imported stays; the rest is imported if you go on.";
    IMPORT_CHECKING = "The file is being tried out";
    IMPORT_CHECKED = "The file was tried out";
    IMPORT_RUNNING = "The file is being imported";
    IMPORT_DONE = "The file is imported";
    IMPORT_STOPPED = "The import has stopped";
    IMPORT_PROBLEMS = "What is wrong with it, the first 100";
    DOWNLOAD_REPORT = "Download all of them (a JSON object a line)";
    RECORDS = "Records";
    RECORDS_READ = "records read";
    WOULD_BE_CREATED = "Would be created";
    WERE_CREATED = "Created";
    WERE_THERE = "There already";
    CONFLICTS = "Their code is taken";
    REFUSED_RECORDS = "Refused";
    NOT_KEPT = "Not kept in full";
    LINE = "Line";

    OWN_PASSWORD = "Your password";
    CURRENT_PASSWORD = "Present password";
    NEW_PASSWORD = "New password";
    WRONG_PASSWORD = "is not your password";
    NO_OWN_PASSWORD = "You have no password. An admin can give you one.";
    LOGGED_IN = "Login";
    THEME = "Appearance";
    THEME_NOTE = "Light or dark follows the setting of your system.";
}

/// Problems of a form as a whole.
pub(super) const FORM_PROBLEMS: [&str; 3] = [FORM_EXPIRED, FOREIGN_FORM, NO_COOKIE];

/// Notice of an action, by its word in the query of the next page.
pub(super) fn notice(done: &str) -> Option<&'static str> {
    match done {
        "created" => Some("Created."),
        "changed" => Some("The changes are saved."),
        "moved" => Some("The link is here now."),
        "restored" => Some("The link is back."),
        "rules" => Some("The rules are saved."),
        "tags" => Some("The tag was changed in all links."),
        "report-closed" => Some("The report is closed."),
        "report-opened" => Some("The report is open again."),
        "report-disabled" => Some("The link is disabled, and the report is closed."),
        "verified" => Some("The domain is verified."),
        "deleted" => Some("Removed."),
        "revoked" => Some("The key is revoked."),
        "password" => Some("The password is changed. Other logins with the old one have ended."),
        _ => None,
    }
}

/// Title and text of the page for a status code.
pub(super) fn error(status: u16) -> (&'static str, &'static str) {
    match status {
        401 => ("Not logged in", "Log in, then try again."),
        403 => (
            "Not allowed",
            "You may not do this. If you should, ask an admin for another role.",
        ),
        404 => (
            "Not found",
            "There is nothing here, or it is not yours to see.",
        ),
        405 => (
            "Not possible",
            "This page does not take that kind of request.",
        ),
        408 => (
            "Too slow",
            "The form took too long to arrive. Send it again.",
        ),
        409 | 412 => (
            "It has changed meanwhile",
            "Something else stands in the way. Load the page again to see how things are.",
        ),
        413 => ("Too much at once", "Send less in one form."),
        422 => (
            "Something is not right",
            "Go back and correct what is named below.",
        ),
        429 => ("Too many requests", "Wait a little, then try again."),
        503 => (
            "Not available at the moment",
            "Something that the console needs does not answer. Try again in a few seconds.",
        ),
        _ => (
            "Something went wrong",
            "It is in the log of the server. Try again later.",
        ),
    }
}

/// The states that a list can be narrowed to.
pub(super) const LISTED_STATES: [(&str, &str); 6] = [
    ("", "All states"),
    ("active", "Active"),
    ("disabled", "Disabled"),
    ("expired", "Expired"),
    ("scheduled", "Scheduled"),
    ("archived", "Archived"),
];

/// The states of a link.
pub(super) const STATES: [(&str, &str); 2] = [("active", "Enabled"), ("disabled", "Disabled")];

/// The states that a list of reports can be narrowed to.
pub(super) const REPORT_STATES: [(&str, &str); 3] =
    [("open", "Open"), ("closed", "Closed"), ("all", "All")];

/// Reasons for reports, by the words of the API.
pub(super) const REPORT_REASONS: [(&str, &str); 5] = [
    ("phishing", "Phishing"),
    ("malware", "Malware"),
    ("spam", "Spam"),
    ("illegal", "Illegal content"),
    ("other", "Something else"),
];

/// The orders of a list.
pub(super) const ORDERS: [(&str, &str); 4] = [
    ("", "Newest first"),
    ("createdAt-asc", "Oldest first"),
    ("shortCode-asc", "Code, A to z (needs a domain)"),
    ("shortCode-desc", "Code, z to A (needs a domain)"),
];

/// The statuses of redirects.
pub(super) const STATUSES: [(&str, &str); 5] = [
    ("", "As usual (302)"),
    ("301", "301, permanent"),
    ("302", "302, temporary"),
    ("307", "307, temporary, with its method"),
    ("308", "308, permanent, with its method"),
];

/// Roles.
pub(super) const ROLES: [(&str, &str); 4] = [
    ("admin", "Admin: everything"),
    ("editor", "Editor: own links"),
    ("reader", "Reader: sees all links"),
    ("creator", "Creator: makes links only"),
];

/// Seconds for which the old secret of a key works beside a new one.
pub(super) const OVERLAPS: [(&str, &str); 4] = [
    ("0", "no more from now on"),
    ("3600", "for 1 more hour"),
    ("86400", "for 1 more day"),
    ("604800", "for 7 more days"),
];

/// Keyboard shortcuts, which console.js implements.
pub(super) const KEYBOARD_KEYS: [(&str, &str); 6] = [
    ("/", "Search"),
    ("c", "New link"),
    ("j", "Next line"),
    ("k", "Line before"),
    ("x", "Select the line"),
    ("?", "This list"),
];

/// Campaign parameters.
pub(super) const UTM: [(&str, &str); 5] = [
    ("utmSource", "Campaign source"),
    ("utmMedium", "Campaign medium"),
    ("utmCampaign", "Campaign name"),
    ("utmTerm", "Campaign term"),
    ("utmContent", "Campaign content"),
];

/// Attributes by which the clicks of a link are counted.
pub(super) const BREAKDOWNS: [(&str, &str); 2] =
    [("countries", COUNTRIES), ("referrers", REFERRERS)];

/// Labels of the properties of the visitor of a dry run.
pub(super) const VISITOR: [&str; 7] = [
    "User agent",
    "Accepted languages",
    "Rest of the path",
    "Query",
    "IP address",
    "Country",
    "City",
];
