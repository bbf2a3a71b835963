package holdfastgoose_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	holdfastgoose "github.com/holdfast-go/holdfast/adapters/goose"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Each process runs this when it starts; one migrates, and the others wait for it.
func Example() {
	ctx := context.Background()
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // of this database in memory
	migrations := fstest.MapFS{"1_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER);")}}

	locker := holdfastgoose.New(rlock.New(client, "migrations"))
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := provider.Up(ctx) // errors.Is(err, holdfast.ErrLost): another process may have migrated too
	fmt.Println(len(results), err)
	// Output: 1 <nil>
}
