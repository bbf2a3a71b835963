package main

import "github.com/spf13/cobra"

func newWatch() *cobra.Command { return &cobra.Command{Use: "watch"} }
