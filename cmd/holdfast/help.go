package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

// showHelp prints the help of a command, no wider than the screen. Examples stay as they are, for who pastes them:
// they are written in 80 columns.
func showHelp(cmd *cobra.Command, _ []string) {
	s := newScreen(cmd.OutOrStdout())
	width := s.width()
	say := func(lines ...string) { fmt.Fprintln(s.out, strings.Join(lines, "\n")) }
	say(reflow(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)), width)...)
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " COMMAND"
	}
	say("", "Usage:")
	say(hanging("  ", use, width)...)
	if cmd.HasExample() {
		say("", "Examples:", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		say("", "Commands:")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				say(hanging(fmt.Sprintf("  %-10s  ", sub.Name()), sub.Short, width)...)
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		say("", "Flags:", strings.TrimRight(cmd.LocalFlags().FlagUsagesWrapped(width), "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		say("", fmt.Sprintf("%q shows the flags and examples of a command.", cmd.CommandPath()+" COMMAND --help"))
	}
}

// itemForm is the beginning of a line of a list: what it is about, and the space behind that.
var itemForm = regexp.MustCompile(`^ +(?:- |\S.*?  +)`)

// reflow wraps a text of many lines. Lines of a paragraph are joined. A line that is indented otherwise begins another one,
// and so does an item of a list.
func reflow(text string, width int) (lines []string) {
	label, paragraph := "", ""
	end := func() {
		if paragraph != "" {
			lines = append(lines, hanging(label, paragraph, width)...)
		}
		paragraph = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		rest := strings.TrimLeft(line, " ")
		item := itemForm.FindString(line)
		if paragraph != "" && item == "" && rest != "" && len(line)-len(rest) == len(label) {
			paragraph += " " + rest
			continue
		}
		end()
		if rest == "" {
			lines = append(lines, "")
			continue
		}
		label = cmp.Or(item, line[:len(line)-len(rest)])
		paragraph = line[len(label):]
	}
	end()
	return lines
}

// hanging wraps a text behind what it is about.
func hanging(label, text string, width int) []string {
	lines := wrap(strings.Repeat(" ", ansi.StringWidth(label))+text, width)
	lines[0] = label + strings.TrimLeft(lines[0], " ")
	return lines
}
