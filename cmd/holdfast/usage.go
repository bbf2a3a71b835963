package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// onlyCommands refuses what is no command.
func onlyCommands(root *cobra.Command, args []string) error {
	if err := noAddress(args...); err != nil || len(args) == 0 {
		return err
	}
	if slices.Contains([]string{"page", "serve", "web"}, args[0]) {
		return fail(exitUsage, "unknown command %q; did you mean ui?", args[0])
	}
	if meant := root.SuggestionsFor(args[0]); len(args) == 1 && len(meant) > 0 {
		return fail(exitUsage, "unknown command %q; did you mean %s?", args[0], strings.Join(meant, " or "))
	}
	return fail(exitUsage, `unknown command %q; "holdfast --help" lists the commands`, strings.Join(args, " "))
}

// helpOfNone is the error of a line that asks for the help of a command that there is not. The parser would show the help
// of all commands, as if that was meant.
func helpOfNone(root *cobra.Command, args []string) error {
	isHelp := func(arg string) bool { return arg == "--help" || arg == "-h" }
	cmd, rest, err := root.Find(args)
	if err != nil || cmd != root || !slices.ContainsFunc(rest, isHelp) {
		return nil
	}
	words := slices.DeleteFunc(slices.Clone(rest), func(arg string) bool { return strings.HasPrefix(arg, "-") })
	if len(words) == 0 || strings.HasPrefix(words[0], "__") { // what a shell asks that completes
		return nil
	}
	return onlyCommands(root, words)
}

// newHelp replaces the command that cobra adds by itself, which ends with 0 if there is no such command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the flags and examples of a command",
		Example: "  holdfast help run",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			for _, sub := range cmd.Root().Commands() {
				if sub.IsAvailableCommand() && len(args) == 0 {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return onlyCommands(cmd.Root(), args)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// badFlag is the error of a flag that the parser refuses. What package strconv says of a value is for programs.
func badFlag(cmd *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &bad) && errors.As(err, &number) {
		what := "which is " + map[string]string{"ParseUint": "not a whole number from 0 on", "ParseInt": "not a whole number",
			"ParseFloat": "not a number", "ParseBool": "neither true nor false"}[number.Func]
		if errors.Is(err, strconv.ErrRange) {
			what = "which is too large, or too small"
		}
		err = fmt.Errorf("--%s is %q, %s", bad.GetFlag().Name, bad.GetValue(), what)
	}
	return fail(exitUsage, "%w; see %q", err, cmd.CommandPath()+" --help")
}

// noFlagAsValue refuses a flag that stands where the value of another one belongs: a shell leaves out a variable that is
// empty, and the next word takes its place. Locks would be called "--".
func noFlagAsValue(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			values = v.GetSlice()
		case *addressFlag:
			values = v.revealed()
		}
		for _, value := range values {
			value, _, _ = strings.Cut(value, "=") // behind it may be a password
			name, ok := strings.CutPrefix(value, "--")
			if known := name == "" || cmd.Flags().Lookup(name) != nil; err == nil && ok && (known || f.Name != "redis") {
				err = fail(exitUsage, "--%s is %q; is a variable empty?", f.Name, value)
			}
		}
	})
	return err
}
