//! The manual page `edgelink(1)`, generated from the command line.

use crate::cli::Arguments;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use edgelink_model::reference;

const END: &str = r#".SH "EXIT STATUS"
.TP
\fB0\fR
Success.
.TP
\fB1\fR
Failure; the reason goes to standard error. Of \fBdoctor\fR: warnings.
.TP
\fB2\fR
The command line or the configuration is wrong. Of \fBdoctor\fR: errors.
.TP
\fB3\fR
An import has left something out, which it lists.
.SH "SEE ALSO"
\fBedgelink.toml\fR(5)
"#;

#[test]
fn command_reference_when_generated_equals_the_file() {
    let mut command = Arguments::command();
    command.build();
    let mut page = Vec::new();
    let manual = Man::new(command.clone());
    manual.render_title(&mut page).unwrap();
    manual.render_name_section(&mut page).unwrap();
    let mut page = String::from_utf8(page).unwrap();
    page.push_str(&sections(&command));
    for command in commands(&command) {
        let name = command.get_bin_name().unwrap();
        page.push_str(&format!(".SH \"{}\"\n", name.to_uppercase()));
        page.push_str(&sections(command).replace(".SH ", ".SS "));
    }
    page.push_str(END);
    reference::assert_file("man/edgelink.1", &page);
}

/// Synopsis, description and options of a command.
fn sections(command: &Command) -> String {
    let manual = Man::new(command.clone());
    let mut sections = Vec::new();
    manual.render_synopsis_section(&mut sections).unwrap();
    manual.render_description_section(&mut sections).unwrap();
    manual.render_options_section(&mut sections).unwrap();
    String::from_utf8(sections).unwrap()
}

/// The commands below this one that are run, without the generated `help`.
fn commands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands();
    let below = below.filter(|command| command.get_name() != "help");
    let run = |command| match commands(command) {
        below if below.is_empty() => vec![command],
        below => below,
    };
    below.flat_map(run).collect()
}
