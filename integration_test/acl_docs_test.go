package integration_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/topology"
)

// TestSecurityDocSaysWhatIsTested: the rules of docs/security.md are those of the tests. Its tables are what
// [TestWithoutAPermission] goes by.
func TestSecurityDocSaysWhatIsTested(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "```\nACL SETUSER orders on >password\n")
	block, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	require.Equal(t, strings.Fields(aclScripts+" "+aclKeys+" "+aclChannels+" "+aclSingle), strings.Fields(block))
	doc := strings.Join(strings.Fields(string(text)), " ")
	doc = strings.ReplaceAll(doc, "` `", " ") // rules on two lines of their own
	for _, rule := range []string{aclFair, aclReadWrite + " " + aclReadWriteChannels, aclElection, aclLatch, aclInspect, aclEnd,
		aclFence, aclCluster, aclReplicas, aclOnDisk, aclHint, aclLabel, aclSentinel, aclQuorum} {
		require.Contains(t, doc, "`"+rule+"`")
	}
	require.Contains(t, doc, "the last line and `+cluster|slots +command +asking`")
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
	require.Equal(t, commands(strings.Join([]string{aclScripts, aclFair, aclReadWrite, aclSemaphore, aclLatch, aclSingle,
		aclCluster, aclReplicas}, " ")), commands(topology.Rule))
}
