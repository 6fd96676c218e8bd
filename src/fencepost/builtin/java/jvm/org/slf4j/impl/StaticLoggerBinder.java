package org.slf4j.impl;

import fencepost.host.Logs;
import org.slf4j.ILoggerFactory;
import org.slf4j.spi.LoggerFactoryBinder;

/** Where SLF4J 1.7, which Kafka Connect has, looks for what is behind it. */
public final class StaticLoggerBinder implements LoggerFactoryBinder {
    private static final StaticLoggerBinder SINGLETON = new StaticLoggerBinder();

    private final Logs logs = new Logs();

    private StaticLoggerBinder() {
    }

    public static StaticLoggerBinder getSingleton() {
        return SINGLETON;
    }

    @Override
    public ILoggerFactory getLoggerFactory() {
        return logs;
    }

    @Override
    public String getLoggerFactoryClassStr() {
        return Logs.class.getName();
    }
}
