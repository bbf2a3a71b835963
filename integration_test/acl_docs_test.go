package integration_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/topology"
)

// TestSecurityDocSaysWhatIsTested: the rule and the table of docs/security.md are those of the
// tests.
func TestSecurityDocSaysWhatIsTested(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	doc := string(text)
	_, rest, _ := strings.Cut(doc, "```\nACL SETUSER orders on >password\n")
	block, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	require.Equal(t, strings.Fields(aclScripts+" "+aclKeys+" "+aclChannels+" "+aclSingle), strings.Fields(block))
	require.Contains(t, strings.Join(strings.Fields(doc), " "), "`"+aclFair+"`")
	require.Contains(t, strings.Join(strings.Fields(doc), " "), "`"+aclReadWrite+" "+aclReadWriteChannels+"`")
	require.Contains(t, strings.Join(strings.Fields(doc), " "), "`"+aclElection+"`")
	require.Contains(t, strings.Join(strings.Fields(doc), " "), "`"+aclLatch+"`")
	for _, rule := range []string{aclInspect, aclEnd} { // each on two lines of its own
		require.Contains(t, strings.ReplaceAll(strings.Join(strings.Fields(doc), " "), "` `", " "), "`"+rule+"`")
	}
	require.Contains(t, doc, "`"+aclFence+"`")
	require.Contains(t, doc, "`"+aclCluster+"`")
	for _, more := range []string{aclReplicas, aclOnDisk, aclHint, aclLabel} {
		require.Contains(t, doc, "`"+more+"`")
	}
	require.Contains(t, doc, "`"+aclSentinel+"`")
	require.Contains(t, doc, "the last line and `+cluster|slots +command +asking`")

	table := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*)\\| ").FindAllStringSubmatch(doc, -1) {
		table[strings.ReplaceAll(m[1], `\|`, "|")] = strings.TrimSpace(m[2])
	}
	require.Equal(t, needs, table)
}

// TestTheSuiteRunsWithTheRule: the user of all topologies may run the same commands and no others.
func TestTheSuiteRunsWithTheRule(t *testing.T) {
	commands := func(rule string) map[string]bool {
		set := map[string]bool{}
		for word := range strings.FieldsSeq(rule) {
			if strings.HasPrefix(word, "+") {
				set[word] = true
			}
		}
		return set
	}
	require.Equal(t, commands(strings.Join([]string{aclScripts, aclFair, aclReadWrite, aclSemaphore, aclLatch, aclSingle, aclCluster, aclReplicas}, " ")),
		commands(topology.Rule))
}
