package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// execute runs the command line and returns the exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	code, _ := executed(args, stdout, stderr)
	return code
}

// executed is execute that also returns the signal that ended it, or 0.
func executed(args []string, stdout, stderr io.Writer) (code int, by syscall.Signal) {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := helpOfNone(root, args)
	if err == nil {
		err = root.Execute()
	}
	var s signalled
	if errors.As(err, &s) {
		by = s.sig
	}
	return report(stderr, err, args), by
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Distributed locks on Redis: see them work, and run commands under them",
		Example: `  holdfast demo         # the whole story on one page
  holdfast ls           # what is locked, by whom, and who waits

  # one at a time, over all machines
  holdfast run --name nightly-report -- ./report.sh`,
		Version:           version(),
		SilenceUsage:      true, // a page of help buries the one line that says what is wrong
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              onlyCommands,
		ValidArgsFunction: cobra.NoFileCompletions,
		PersistentPreRunE: noFlagAsValue,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2, // a letter or two may be wrong
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpFunc(showHelp)
	root.SetFlagErrorFunc(badFlag)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newDemo(), newWorker(), newGuard(), newBecome(), newRun(), newLs(), newInspect(), newUnlock(), newDoctor(), newWatch(), newTop(), newUI(), newCompletion(), newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program and what it was built with",
		Example: "  holdfast version",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), version()); err != nil {
				return failure{exitHoldfast, err}
			}
			return nil
		},
	}
}

// version is one line. What was built in a checkout has no version; its commit says more.
func version() string {
	v := "unknown version"
	if info, ok := debug.ReadBuildInfo(); ok {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 && !strings.Contains(v, s.Value[:12]) {
				v += " (" + s.Value[:12] + ")"
			}
		}
	}
	return fmt.Sprintf("holdfast %s, %s, %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func noArgs(cmd *cobra.Command, args []string) error {
	if err := noAddress(args...); err != nil {
		return err
	}
	if len(args) > 0 {
		return fail(exitUsage, "%q takes no argument, and got %q; see %q", cmd.CommandPath(), args[0],
			cmd.CommandPath()+" --help")
	}
	return nil
}

// span is a flag for a length of time whose errors say what would have been right.
type span struct {
	time.Duration
	min     time.Duration
	example string
}

// Set is called by the parser, which puts the flag's name and the value in front of the error.
func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("not a length of time, or longer than 292 years; use a number with a unit, such as " +
			s.example)
	case d < s.min:
		return fmt.Errorf("too short; use at least %v, for example %s", s.min, s.example)
	}
	s.Duration = d
	return nil
}

// Type is what the help shows for the value.
func (s *span) Type() string { return "duration" }
