// How much fits on a line of the terminal that a program prints on.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tw::bench {

/// Columns of the terminal behind this descriptor, from 40 to 200; nullopt if there is none, or it does not say.
std::optional<int> terminal_width(int descriptor);

/// Lets standard error be written a line at a time, before anything is printed there. Unbuffered, glibc 2.37 and later
/// write a line in pieces, which mpirun mixes with those of other ranks and with standard output.
void write_stderr_by_lines();

/// Writes out what was printed: a full disk shows no earlier than here. Empty, or why not all has arrived, with a code.
std::string stdout_fault();

/// A line on standard error, printable: what a name or a file contains does not change the terminal. Never throws: a
/// standard error that is closed, full or a broken pipe leaves nowhere to say so, and no reason to end.
void say_on_stderr(std::string_view line);

/// What CLI11 prints for --help, in lines of `width` columns at most. `column`: where descriptions begin.
std::string help_within(const std::string& help, std::size_t width, std::size_t column = 30);
/// Likewise, as wide as standard output's terminal, or 80 columns.
std::string help_within_terminal(const std::string& help);

/// `text` in `width` columns at most, without its middle where it is longer: "gpt2-124m/bf…/acc2/np2".
std::string without_middle(const std::string& text, std::size_t width);

}  // namespace tw::bench
