package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const completionLong = `Prints a script that teaches a shell to complete the commands and flags of holdfast, and some of
their values.

bash (needs the package bash-completion), for this shell:
  source <(holdfast completion bash)
bash, for every shell from now on:
  holdfast completion bash > /etc/bash_completion.d/holdfast
zsh (if "compinit" runs in ~/.zshrc):
  holdfast completion zsh > "${fpath[1]}/_holdfast"
fish:
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish`

// completionShells are in the order of the help.
var completionShells = []string{"bash", "zsh", "fish"}

// newCompletion replaces the command that cobra adds by itself, whose errors have neither a remedy nor
// our exit code.
func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a script that completes commands and flags in a shell",
		Long:      completionLong,
		Example:   "  source <(holdfast completion bash)",
		ValidArgs: completionShells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fail(exitUsage, `"holdfast completion" takes the name of one shell, and got %d; use bash, zsh or fish`,
					len(args))
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(out, true)
			case "zsh":
				err = root.GenZshCompletion(out)
			case "fish":
				err = root.GenFishCompletion(out, true)
			default:
				return fail(exitUsage, "there is no completion for %q; use bash, zsh or fish", args[0])
			}
			if err != nil {
				return failure{exitHoldfast, fmt.Errorf("write the script: %w", err)}
			}
			return nil
		},
	}
}
