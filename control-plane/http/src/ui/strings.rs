//! The texts of pages for visitors, in English.

use crate::texts;

texts! {
    pub,
    NOT_FOUND = "Link not found";
    NOT_FOUND_TEXT = "There is no link at this address. Please check how it is spelled.";
    GONE = "Link no longer available";
    GONE_TEXT = "This link has expired or was switched off.";
    UNAVAILABLE = "Please try again";
    UNAVAILABLE_TEXT = "This link cannot be looked up at the moment. Please try again in a few seconds.";

    PASSWORD = "Password";
    CONTINUE = "Continue";

    PREVIEW = "Where this link leads";
    LOCKED = "This link is locked: it asks for a password, and shows its target only to those who know it.";
    LEADS_TO = "Target";
    SITE = "Site";
    TITLE = "Title";
    CREATED = "Created";
    ENDS = "Ends";
    HAS_RULES = "Some visitors may be led elsewhere, by their device, language, place or the time, for example.";
    FOLLOW = "Follow the link";

    HOME = "Short links";
    HOME_TEXT = "Links of this site are short addresses that lead elsewhere. A plus sign at the end of one shows where.";
    SHORTEN = "Shorten an address";
    LONG_URL = "Address";
    LONG_URL_HINT = "With https:// or http://.";
    ALIAS = "Alias";
    ALIAS_HINT = "Letters, digits, - and _. Leave it empty for one that is made up.";
    LASTS = "The link lasts so many days:";
    MADE = "Your short link";
    QR_CODE = "QR code of the short link";
    SHORTEN_ANOTHER = "Shorten another address";
    PREVIEW_LINK = "Preview";
    TOO_LONG = "is too long";
    TOO_MANY = "Too many at once";
    TOO_MANY_TEXT = "So many came from your network, or from all visitors, that you have to wait. Please try again later.";
    NO_CREATION = "No links can be made here at the moment. Please try again later.";
    FAILED = "That did not work";

    REPORT = "Report a link";
    REPORT_TEXT = "Tell us if a link leads to something harmful or illegal. Those who run this site look at it.";
    REPORTED = "Thank you";
    REPORTED_TEXT = "Your report has arrived.";
    REPORT_LINK = "Report abuse";
    SEND_REPORT = "Send the report";
    CODE = "Code of the link";
    CODE_HINT = "What follows the name of the site in its address.";
    REASON = "What is wrong with it";
    REPORT_DETAILS = "What you have seen";
    REPORT_DETAILS_HINT = "Optional, at most 2000 characters.";
    EMAIL = "Your e-mail address";
    EMAIL_HINT = "Optional: only for questions about this report. Those who run this site see it.";
    SHARE_EMAIL = "The owner of the link may see my address as well";
    NO_SUCH_LINK = "is the code of no link here";
    NO_SUCH_REASON = "must be one of the list";
    TOO_LONG_TEXT = "must be at most 2000 characters long, of control characters with line ends only";
    NO_EMAIL = "must be an e-mail address, or empty";
    REPORTS_FULL = "Reports cannot be taken at the moment. Please try again later.";
}

/// Reasons for reporting a link: words of the API, and their labels.
pub const REASONS: [(&str, &str); 5] = [
    ("phishing", "It pretends to be another site (phishing)"),
    ("malware", "It spreads malware"),
    ("spam", "It came as spam"),
    ("illegal", "What it leads to is illegal"),
    ("other", "Something else"),
];
