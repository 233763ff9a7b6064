package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sallyport/store"
	"sallyport/store/database"
)

type migrateCommand struct {
	Up     migrateUp     `cmd:"" default:"withargs" help:"Apply pending migrations; instances also do this at startup."`
	Status migrateStatus `cmd:"" help:"List migrations and their status."`
}

// where says which database a migration is about.
type where struct {
	Data        string `help:"Data folder (default: ${data})." placeholder:"DIR" type:"folder"`
	DatabaseURL string `help:"PostgreSQL URL: postgres://user:password@host/name." placeholder:"URL"`
	JSON        bool   `name:"json" help:"Print JSON."`
}

func (w *where) config(std *stdio) store.Config {
	g := gateway{options: options{Data: w.Data, DatabaseURL: w.DatabaseURL}, log: newLogger(std.Err, "warn", "text")}
	if g.options.Data == "" {
		g.options.Data = dataFolder()
	}
	return g.storeConfig()
}

// migrationRow is a migration as it is printed.
type migrationRow struct {
	Name      string     `json:"name"`
	Checksum  string     `json:"checksum"`
	AppliedAt *time.Time `json:"applied_at"`
}

func printMigrations(std *stdio, asJSON bool, list []database.Migration, text func(io.Writer)) error {
	if !asJSON {
		text(std.Out)
		return nil
	}
	rows := make([]migrationRow, 0, len(list))
	for _, m := range list {
		rows = append(rows, migrationRow{m.Name, m.Checksum, m.AppliedAt})
	}
	encoder := json.NewEncoder(std.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{"items": rows})
}

type migrateUp struct {
	where
	DryRun bool `help:"Print the SQL without running it."`
}

// Run applies the pending migrations.
func (c *migrateUp) Run(ctx context.Context, std *stdio) error {
	if c.DryRun {
		return c.dryRun(ctx, std)
	}
	applied, err := database.Migrate(ctx, c.config(std))
	if err != nil {
		return databaseAdvice(err)
	}
	return printMigrations(std, c.JSON, applied, func(w io.Writer) {
		for _, m := range applied {
			fmt.Fprintln(w, "applied", m.Name)
		}
		if len(applied) == 0 {
			fmt.Fprintln(w, "Nothing to do: the database is up to date.")
		}
	})
}

func (c *migrateUp) dryRun(ctx context.Context, std *stdio) error {
	list, err := database.MigrationStatus(ctx, c.config(std))
	if err != nil {
		return databaseAdvice(err)
	}
	var pending []database.Migration
	for _, m := range list {
		if m.AppliedAt == nil {
			pending = append(pending, m)
		}
	}
	return printMigrations(std, c.JSON, pending, func(w io.Writer) {
		for _, m := range pending {
			fmt.Fprintf(w, "-- %s\n%s\n", m.Name, m.SQL)
		}
		if len(pending) == 0 {
			fmt.Fprintln(w, "-- Nothing to do: the database is up to date.")
		}
	})
}

type migrateStatus struct{ where }

// Run prints every migration and when it was applied.
func (c *migrateStatus) Run(ctx context.Context, std *stdio) error {
	list, err := database.MigrationStatus(ctx, c.config(std))
	if err != nil {
		return databaseAdvice(err)
	}
	return printMigrations(std, c.JSON, list, func(w io.Writer) {
		rows := make([][]string, 0, len(list))
		for _, m := range list {
			applied := "pending"
			if m.AppliedAt != nil {
				applied = m.AppliedAt.Format(time.RFC3339)
			}
			rows = append(rows, []string{m.Name, applied, m.Checksum[:12]})
		}
		table(w, []string{"MIGRATION", "APPLIED", "SHA-256"}, rows)
	})
}
