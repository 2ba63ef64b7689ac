#include "bench/terminal/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

namespace tw::bench {
namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string one_line(const std::string& text) { return replaced(text, "\n", " "); }

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The long names of what --help lists; nothing of positional arguments.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options(
      [](const CLI::Option* option) { return !option->get_group().empty() && option->nonpositional(); });
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// "a,b".
bool takes_list(const CLI::Option& option) { return option.get_delimiter() != '\0'; }

/// " TEXT" of an option with a value, less what checks it: "INT:INT in [40 - 400]".
std::string value_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return takes_value(option) ? " " + type.substr(0, type.find(':')) : "";
}

/// Without leading hyphens.
std::vector<std::string> long_names(const std::vector<const CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options)
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  return names;
}

// ---- man ----

/// roff reads a hyphen as a typographic one, a backslash as an escape, and a dot or quote at the start of a line as a
/// request.
std::string roff(const std::string& text) {
  std::string out = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  out = replaced(replaced(out, "\n.", "\n\\&."), "\n'", "\n\\&'");
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

void write_options(std::string& out, const CLI::App& app) {
  std::string group;
  for (const std::string& name : app.get_groups()) {
    if (name.empty()) continue;
    for (const CLI::Option* option : options_of(app)) {
      if (option->get_group() != name) continue;
      if (group != name) out += fmt::format(".SS {}\n", roff(group = name));
      std::vector<std::string> names;
      for (const std::string& one : option->get_snames()) names.push_back("\\fB\\-" + roff(one) + "\\fR");
      for (const std::string& one : option->get_lnames()) names.push_back("\\fB\\-\\-" + roff(one) + "\\fR");
      out += fmt::format(".TP\n{}{}\n{}\n", fmt::join(names, ", "), "\\fI" + roff(value_of(*option)) + "\\fR",
                         roff(one_line(option->get_description())));
    }
  }
}

std::string positionals_of(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* one) { return one->get_positional(); }))
    out += " \\fI" + roff(option->get_name(true)) + "\\fR" + (option->get_items_expected_max() > 1 ? " ..." : "");
  return out;
}

std::string man_page(const CLI::App& app, const std::string& version) {
  const std::string& name = app.get_name();
  const std::vector<const CLI::App*> commands = commands_of(app);
  const std::string about = app.get_description();
  std::string first = one_line(about.substr(0, about.find_first_of(".\n")));
  std::string out = fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", roff(name),
                                roff(name), version, roff(name), roff(first));
  out += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR {}[\\fIoptions\\fR]{}\n.SH DESCRIPTION\n{}\n", roff(name),
                     commands.empty() ? "" : "\\fIcommand\\fR ", positionals_of(app), roff(one_line(about)));
  out += ".SH OPTIONS\n";
  write_options(out, app);
  for (const CLI::App* command : commands) {
    if (command == commands.front()) out += ".SH COMMANDS\n";
    out += fmt::format(".SS {}\n{}\n.PP\n\\fB{} {}\\fR [\\fIoptions\\fR]{}\n", roff(command->get_name()),
                       roff(one_line(command->get_description())), roff(name), roff(command->get_name()),
                       positionals_of(*command));
    for (const CLI::Option* option : command->get_options([](const CLI::Option* one) { return one->get_positional(); }))
      out +=
          fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(option->get_name(true)), roff(one_line(option->get_description())));
    for (const CLI::Option* option : options_of(*command))
      if (option != command->get_help_ptr())
        out += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(option->get_name(false, true)),
                           "\\fI" + roff(value_of(*option)) + "\\fR", roff(one_line(option->get_description())));
    if (!command->get_footer().empty()) out += ".PP\n" + roff(command->get_footer()) + "\n";
  }
  if (!app.get_footer().empty()) out += ".SH EXIT STATUS\n" + roff(app.get_footer()) + "\n";
  return out;
}

// ---- shells ----

std::string function_of(const CLI::App& app) { return "_" + replaced(app.get_name(), "-", "_"); }

std::string dashed(const CLI::App& app) { return fmt::format("--{}", fmt::join(long_names(options_of(app)), " --")); }

/// Whether an option of this name, "--precision", takes a list in the program or in one of its commands.
bool takes_list(const CLI::App& app, const std::string& name) {
  std::vector<const CLI::App*> all = commands_of(app);
  all.push_back(&app);
  return std::ranges::any_of(all, [&](const CLI::App* one) {
    const CLI::Option* option = one->get_option_no_throw(name);
    return option != nullptr && takes_list(*option);
  });
}

std::string bash_completion(const CLI::App& app, const KnownWords& words) {
  // The last of a list "a,b" is completed, too. Without words of ours, bash completes files. In "--model=gpt", bash
  // takes the "=" for a word of its own.
  std::string out = fmt::format("{}() {{\n", function_of(app));
  out +=
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} head='' words='' list=''\n"
      "  if [ \"$current\" = = ]; then current=''\n"
      "  elif [ \"$previous\" = = ] && [ \"$COMP_CWORD\" -gt 2 ]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
      "  case $previous in\n";
  for (const auto& [option, values] : words)
    out += fmt::format("    {}) words='{}'{} ;;\n", option, fmt::join(values, " "),
                       takes_list(app, option) ? " list=yes" : "");
  out +=
      "  esac\n"
      "  if [ -n \"$words\" ]; then\n"
      "    case $list$current in yes*,*) head=${current%,*}, ;; esac\n"
      "    COMPREPLY=($(compgen -P \"$head\" -W \"$words\" -- \"${current#\"$head\"}\"))\n"
      "    return\n"
      "  fi\n";
  const std::vector<const CLI::App*> commands = commands_of(app);
  if (commands.empty()) {
    out += fmt::format("  words='{}'\n", dashed(app));
  } else {
    std::vector<std::string> names;
    out += "  if [ \"$COMP_CWORD\" -gt 1 ]; then\n    case ${COMP_WORDS[1]} in\n";
    for (const CLI::App* command : commands) {
      names.push_back(command->get_name());
      out += fmt::format("      {}) words='{}' ;;\n", command->get_name(), dashed(*command));
    }
    out += fmt::format("    esac\n  else\n    COMPREPLY=($(compgen -W '{} {}' -- \"$current\"))\n    return\n  fi\n",
                       fmt::join(names, " "), dashed(app));
  }
  out += "  case $current in -*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;; esac\n}\n";
  return out + fmt::format("complete -o default -F {} {}\n", function_of(app), app.get_name());
}

/// In single quotes of a zsh specification.
std::string zsh_text(const std::string& text) {
  std::string out = replaced(one_line(text), "'", "'\\''");
  for (const char* special : {"[", "]", ":"}) out = replaced(out, special, std::string("\\") + special);
  return out;
}

std::string zsh_options(const CLI::App& app, const KnownWords& words, const std::string& indent) {
  std::string out;
  for (const CLI::Option* option : options_of(app))
    for (const std::string& name : option->get_lnames()) {
      const auto known = words.find("--" + name);
      std::string value;
      if (takes_value(*option) && known == words.end()) value = ":value:_files";
      if (takes_value(*option) && known != words.end())
        value = takes_list(*option) ? fmt::format(":value:_sequence compadd - {}", fmt::join(known->second, " "))
                                    : fmt::format(":value:({})", fmt::join(known->second, " "));
      // With "=", zsh takes "--model=gpt" and "--model gpt", and completes the latter.
      out += fmt::format(" \\\n{}'--{}{}[{}]{}'", indent, name, value.empty() ? "" : "=",
                         zsh_text(option->get_description()), value);
    }
  return out;
}

std::string zsh_completion(const CLI::App& app, const KnownWords& words) {
  std::string out = fmt::format("#compdef {}\n", app.get_name());
  const std::vector<const CLI::App*> commands = commands_of(app);
  if (commands.empty()) return out + "_arguments" + zsh_options(app, words, "  ") + " \\\n  '*:file:_files'\n";
  out += "if (( CURRENT == 2 )); then\n  local -a commands=(";
  for (const CLI::App* command : commands)
    out += fmt::format("\n    '{}:{}'", command->get_name(), zsh_text(command->get_description()));
  out += "\n  )\n  _describe command commands\n  return\nfi\ncase $words[2] in\n";
  for (const CLI::App* command : commands)
    out += fmt::format("  {}) _arguments '1: :'{} \\\n      '*:file:_files' ;;\n", command->get_name(),
                       zsh_options(*command, words, "      "));
  return out + "esac\n";
}

std::string fish_text(const std::string& text) { return replaced(replaced(one_line(text), "\\", "\\\\"), "'", "\\'"); }

std::string fish_options(const CLI::App& app, const std::string& program, const std::string& condition,
                         const KnownWords& words) {
  std::string out;
  for (const CLI::Option* option : options_of(app))
    for (const std::string& name : option->get_lnames()) {
      out +=
          fmt::format("complete -c {}{} -l {} -d '{}'", program, condition, name, fish_text(option->get_description()));
      if (const auto known = words.find("--" + name); known != words.end())
        out += takes_list(*option) ? fmt::format(" -x -a '(__fish_append , {})'", fmt::join(known->second, " "))
                                   : fmt::format(" -x -a '{}'", fmt::join(known->second, " "));
      else if (takes_value(*option))
        out += " -r";
      out += "\n";
    }
  return out;
}

std::string fish_completion(const CLI::App& app, const KnownWords& words) {
  const std::string& program = app.get_name();
  std::string out = fish_options(app, program, commands_of(app).empty() ? "" : " -n __fish_use_subcommand", words);
  for (const CLI::App* command : commands_of(app)) {
    out += fmt::format("complete -c {} -n __fish_use_subcommand -f -a {} -d '{}'\n", program, command->get_name(),
                       fish_text(command->get_description()));
    out += fish_options(*command, program, fmt::format(" -n '__fish_seen_subcommand_from {}'", command->get_name()),
                        words);
  }
  return out;
}

}  // namespace

void add_describe_option(CLI::App& app, std::string& format) {
  app.add_option("--describe", format)->check(CLI::IsMember({"man", "bash", "zsh", "fish"}))->group("");
}

std::string describe(const CLI::App& app, const std::string& format, const std::string& version,
                     const KnownWords& words) {
  if (format == "man") return man_page(app, version);
  if (format == "bash") return bash_completion(app, words);
  return format == "zsh" ? zsh_completion(app, words) : fish_completion(app, words);
}

}  // namespace tw::bench
